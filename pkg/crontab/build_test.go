package crontab

import (
	"encoding/json"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// TestNewCronJob checks the complete CronJob of a manifest.
func TestNewCronJob(t *testing.T) {
	s := state(t, "networks=green,blue zone=Europe/Berlin replicas=3")
	s.CronTab.Spec.Command, s.CronTab.Spec.Args = []string{"/app"}, []string{"-v"}
	s.CronTab.Spec.Env = []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}}
	created := Diff(s).Create
	got, err := json.MarshalIndent(created.Spec, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "schedule": "*/5 * * * *",
 "timeZone": "Europe/Berlin",
 "concurrencyPolicy": "Forbid",
 "suspend": false,
 "jobTemplate": {
  "metadata": {
   "labels": {
    "stable.example.com/crontab": "ct"
   }
  },
  "spec": {
   "parallelism": 3,
   "completions": 3,
   "backoffLimit": 6,
   "template": {
    "metadata": {
     "labels": {
      "samplecrd.k8s.io/managed": "true",
      "stable.example.com/crontab": "ct"
     },
     "annotations": {
      "samplecrd.k8s.io/networks": "blue, green"
     }
    },
    "spec": {
     "containers": [
      {
       "name": "crontab",
       "image": "app:1",
       "command": [
        "/app"
       ],
       "args": [
        "-v"
       ],
       "env": [
        {
         "name": "NODE",
         "valueFrom": {
          "fieldRef": {
           "apiVersion": "v1",
           "fieldPath": "spec.nodeName"
          }
         }
        }
       ],
       "resources": {}
      }
     ],
     "restartPolicy": "OnFailure",
     "schedulingGates": [
      {
       "name": "samplecrd.k8s.io/addresses"
      }
     ]
    }
   }
  }
 },
 "successfulJobsHistoryLimit": 3,
 "failedJobsHistoryLimit": 1
}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if created.Labels[v1.CronTabLabel] != "ct" || created.Name != "ct" || created.OwnerReferences[0].UID != uid {
		t.Errorf("metadata is %+v", created.ObjectMeta)
	}
}

// TestRequestOfARun checks the request of a run's pods.
func TestRequestOfARun(t *testing.T) {
	runDiff(t, []diffTest{
		{"no Network", "", nil, ""},
		{"any interface", "networks=green,blue", nil, "blue, green"},
		{"an interface by name", "networks=green,blue@data0", nil, "blue@data0, green"},
	}, func(s State) string {
		return Diff(s).Create.Spec.JobTemplate.Spec.Template.Annotations[samplev1.NetworksAnnotation]
	})
}

// TestSizeOfARun checks how many pods run at once, and how many must succeed.
func TestSizeOfARun(t *testing.T) {
	runDiff(t, []diffTest{
		{"by default", "", nil, "1 1"},
		{"replicas", "replicas=3", nil, "3 3"},
		{"completions", "completions=4", nil, "1 4"},
		{"both", "replicas=3 completions=9", nil, "3 9"},
		{"none", "replicas=0", nil, "0 0"},
	}, func(s State) string {
		job := Diff(s).Create.Spec.JobTemplate.Spec
		return fmt.Sprint(*job.Parallelism, *job.Completions)
	})
}

// If someone changes a field that a CronTab has, the controller restores it.
func TestEveryFieldIsRepaired(t *testing.T) {
	const spec = "zone=Europe/Berlin networks=blue policy=Allow deadline=60"
	for _, tt := range []struct {
		want   string
		change func(*batchv1.CronJobSpec)
	}{
		{"schedule", func(c *batchv1.CronJobSpec) { c.Schedule = "@daily" }},
		{"timeZone", func(c *batchv1.CronJobSpec) { c.TimeZone = nil }},
		{"suspend", func(c *batchv1.CronJobSpec) { c.Suspend = ptr.To(true) }},
		{"concurrencyPolicy", func(c *batchv1.CronJobSpec) { c.ConcurrencyPolicy = "Replace" }},
		{"startingDeadlineSeconds", func(c *batchv1.CronJobSpec) { c.StartingDeadlineSeconds = nil }},
		{"successfulJobsHistoryLimit", func(c *batchv1.CronJobSpec) { c.SuccessfulJobsHistoryLimit = ptr.To[int32](9) }},
		{"failedJobsHistoryLimit", func(c *batchv1.CronJobSpec) { c.FailedJobsHistoryLimit = ptr.To[int32](9) }},
		{"parallelism", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.Parallelism = ptr.To[int32](9) }},
		{"completions", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.Completions = nil }},
		{"backoffLimit", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.BackoffLimit = nil }},
		{"activeDeadlineSeconds", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.ActiveDeadlineSeconds = ptr.To[int64](9) }},
		{"labels", func(c *batchv1.CronJobSpec) { c.JobTemplate.Labels = nil }},
		{"pod template", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.Template.Spec.RestartPolicy = "Never" }},
		{"pod template", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.Template.Spec.SchedulingGates = nil }},
		{"pod template", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.Template.Annotations = nil }},
		{"pod template", func(c *batchv1.CronJobSpec) { delete(c.JobTemplate.Spec.Template.Labels, samplev1.ManagedLabel) }},
		{"pod template", func(c *batchv1.CronJobSpec) {
			c.JobTemplate.Spec.Template.Annotations[samplev1.AddressesAnnotation] = `{"blue":{"address":"10.0.0.9/24"}}`
		}},
		{"jobTemplate.spec.suspend", func(c *batchv1.CronJobSpec) { c.JobTemplate.Spec.Suspend = ptr.To(true) }},
	} {
		s := state(t, spec, "cronjob")
		right := s.CronJob.DeepCopy()
		tt.change(&s.CronJob.Spec)
		update := Diff(s).Update
		if update == nil {
			t.Errorf("%s: not repaired", tt.want)
		} else if update.Reason != tt.want {
			t.Errorf("%s: repaired %s", tt.want, update.Reason)
		} else if left := difference(update.Object, right); left != "" {
			t.Errorf("%s: still differs: %s", tt.want, left)
		}
	}
}

// The API server derives the pull policy from the image: "Always" for latest.
func TestImagePullPolicy(t *testing.T) {
	policy := func(cronJob *batchv1.CronJob) string {
		container := cronJob.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
		return container.Image + " " + string(container.ImagePullPolicy)
	}
	if got, want := policy(Diff(state(t, "", "cronjob image=app:latest")).Update.Object), "app:1 "; got != want {
		t.Errorf("another image: got %q, want %q", got, want)
	}
	if got, want := policy(Diff(state(t, "", "cronjob suspended")).Update.Object), "app:1 IfNotPresent"; got != want {
		t.Errorf("the same image: got %q, want %q", got, want)
	}
}

// Fields that are removed from the CronTab are removed from the CronJob.
func TestFieldsTakenOut(t *testing.T) {
	full := state(t, "zone=Europe/Berlin policy=Replace networks=blue replicas=2 completions=3 deadline=30")
	full.CronTab.Spec.Command, full.CronTab.Spec.Args, full.CronTab.Spec.Env = []string{"/app"}, []string{"-v"}, []corev1.EnvVar{{Name: "A"}}
	full.CronTab.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	s := state(t, "", "cronjob")
	bare := s.CronJob
	s.CronJob = cronJob(t, full, nil)
	if left := difference(Diff(s).Update.Object, bare); left != "" {
		t.Errorf("still differs: %s", left)
	}
}
