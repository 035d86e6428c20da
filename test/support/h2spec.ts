/** h2spec, which tests servers of HTTP/2: `PATH=$PATH:$(.ci/h2spec CACHE)`. */
import { spawn, spawnSync } from 'node:child_process'

export const h2specAbsent =
  spawnSync('h2spec', ['--version']).status === 0 ? false : 'h2spec not found'

/** The numbers and titles of the cases of h2spec in which a server fails. */
export async function h2specFailures(port: number, path: string): Promise<string[]> {
  const child = spawn('h2spec', ['-p', String(port), '-P', path, '-o', '1', '--strict'])
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += String(chunk)
  })
  await new Promise((resolve) => child.once('close', resolve))
  const failed = text.split('Failures:')[1] ?? ''
  return [...failed.matchAll(/×\s+(\d+: .*)/g)].map(([, title]) => title!)
}
