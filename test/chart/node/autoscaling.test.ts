/** The autoscaler of a real cluster, by real metrics: metrics-server, Prometheus and prometheus-adapter. */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { autoscalingAbsent } from '../cluster/autoscaling.ts'
import { nodeAbsent, runOnNode } from '../cluster/on-node.ts'

const prometheusAbsent =
  spawnSync('prometheus', ['--version']).status !== 0 && 'prometheus not found'

t.test('autoscaling', { skip: nodeAbsent || autoscalingAbsent || prometheusAbsent }, (t) =>
  runOnNode(t, new URL('autoscaling-inside.ts', import.meta.url)),
)
