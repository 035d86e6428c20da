/** promtool as the chart's tests call it. */
import { spawnSync } from 'node:child_process'
import { withoutCollector } from './helm.ts'

/** What `t.test` takes to skip by name where promtool is absent. */
export const needsPromtool = {
  skip:
    spawnSync('promtool', ['--version']).status === 0
      ? (false as const)
      : 'promtool not found (the package prometheus)',
}

export function promtool(...args: string[]) {
  const { status, stdout, stderr } = spawnSync('promtool', args, {
    encoding: 'utf8',
    env: withoutCollector,
  })
  return { ok: status === 0, text: stdout + stderr }
}
