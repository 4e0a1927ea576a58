package model

// graph has the transitions that are not faults. If every path in it ends, and every end is
// correct, the world converges from every state, in any order of events.
type graph struct {
	first   []uint32 // of each node, in edges
	targets []uint32
}

func (g *graph) begin(node uint32) {
	for uint32(len(g.first)) <= node {
		g.first = append(g.first, uint32(len(g.targets)))
	}
}

func (g *graph) edge(to uint32) { g.targets = append(g.targets, to) }

// cycle returns a cycle, nil if there is none. It is a depth-first search without
// recursion: it has found a cycle when it meets a node on its present path.
func (g *graph) cycle(nodes int) (cycle []uint32) {
	const (
		fresh = iota
		open
		closed
	)
	g.begin(uint32(nodes))
	state := make([]uint8, nodes)
	type frame struct{ node, edge uint32 }
	var stack []frame
	for root := range uint32(nodes) {
		if state[root] != fresh {
			continue
		}
		stack = append(stack[:0], frame{root, g.first[root]})
		state[root] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.edge == g.first[top.node+1] {
				state[top.node] = closed
				stack = stack[:len(stack)-1]
				continue
			}
			to := g.targets[top.edge]
			top.edge++
			switch state[to] {
			case fresh:
				state[to] = open
				stack = append(stack, frame{to, g.first[to]})
			case open:
				for i := range stack {
					if stack[i].node == to {
						for _, f := range stack[i:] {
							cycle = append(cycle, f.node)
						}
						return cycle
					}
				}
			}
		}
	}
	return nil
}
