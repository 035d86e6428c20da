/** The image of the Dockerfile, on a real node: kubelet, containerd, kube-proxy. */
import t from 'tap'
import { nodeAbsent, runOnNode } from '../cluster/on-node.ts'

t.test('a real node', { skip: nodeAbsent }, (t) =>
  runOnNode(t, new URL('inside.ts', import.meta.url)),
)
