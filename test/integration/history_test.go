package integration

const addressHistory = `
apiVersion: samplecrd.k8s.io/v1
kind: AddressHistory
metadata: {name: blue-9}
spec: {since: "2026-01-01T10:00:00Z", through: "2026-01-01T10:00:00Z"}`
