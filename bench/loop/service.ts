/** The service in a folder of its own, as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../main.ts', import.meta.url))

export interface Service {
  child: ChildProcess
  /** The configuration. */
  file: string
  proxy: number
  admin: number
}

/** Supplier ids, their endpoint and limits. */
type Suppliers = Record<
  string,
  { endpoint: string; timeout: string; maxInFlight?: 'auto' | number }
>

/** YAML is a superset of JSON. */
export function configText(suppliers: Suppliers, holdout = 0.1): string {
  const opd = { enabled: true, holdout }
  return JSON.stringify({
    proxy: { listen: '127.0.0.1:0' },
    admin: { listen: '127.0.0.1:0', impressions: { auth: 'context' } },
    suppliers: Object.entries(suppliers).map(([id, { endpoint, ...route }]) => ({
      ...{ id, endpoints: [endpoint], opd, ...route },
    })),
  })
}

/** `probe`: a module that runs in the service, too, and answers messages. */
export async function serve(suppliers: Suppliers, probe?: URL): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-loop-'))
  const file = join(folder, 'bidweir.yaml')
  writeFileSync(file, configText(suppliers))
  const first = probe === undefined ? [] : ['--import', probe.href]
  const child = spawn(process.execPath, [...first, main, 'start', '--config', file], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit', ...(probe === undefined ? [] : ['ipc' as const])],
  })
  let text = ''
  while (!/^admin .*\n/m.test(text)) text += String((await once(child.stdout!, 'data'))[0])
  child.stdout!.resume()
  const port = (name: string) => Number(new RegExp(`^${name} .*?:(\\d+)/`, 'm').exec(text)![1])
  return { child, file, proxy: port('bid traffic'), admin: port('admin') }
}
