/** What a pod of the chart mounts under /etc/bidweir, laid out in a folder. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Manifest } from './helm.ts'

/** What a Secret of the operator's own would hold. */
const standIns: Readonly<Record<string, string>> = {
  'database-url': 'postgres://u@db/x',
  'redis-url': 'redis://cache',
}

/** Writes bidweir.yaml and its secrets; `edit` may change the configuration's text. Returns the file. */
export function layOut(
  dir: string,
  all: readonly Manifest[],
  edit: (text: string) => string = (text) => text,
): string {
  const config = all.find(({ kind }) => kind === 'ConfigMap')!.data!['bidweir.yaml']!
  const secret: Record<string, string> = {}
  for (const { kind, data } of all) if (kind === 'Secret') Object.assign(secret, data)
  for (const [, file] of config.matchAll(/file: (\/etc\/bidweir\/\S+)/g)) {
    const path = file!.replace('/etc/bidweir', dir)
    const [folder, name] = path.split('/').slice(-2) as [string, string]
    const field = name === 'url' ? `${folder}-url` : name
    const secretValue = secret[field]
    const standIn = standIns[field] ?? Buffer.alloc(32, 7).toString('base64url')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, secretValue === undefined ? standIn : Buffer.from(secretValue, 'base64'))
  }
  const file = join(dir, 'bidweir.yaml')
  writeFileSync(file, edit(config.replaceAll('/etc/bidweir', dir)))
  return file
}
