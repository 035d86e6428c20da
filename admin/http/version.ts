import { existsSync, readFileSync } from 'node:fs'

/** The version of the program. Emitted JavaScript is one folder deeper below package.json. */
export function programVersion(): string {
  for (const up of ['../../package.json', '../../../package.json']) {
    const file = new URL(up, import.meta.url)
    if (!existsSync(file)) continue
    const { name, version } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>
    if (name === 'bidweir' && version !== undefined) return version
  }
  return '0'
}
