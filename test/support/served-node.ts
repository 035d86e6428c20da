/** A whole node within the process of the test: for tests of neither processes nor their output, at a fraction of the CPU. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadConfig } from '../../service/config/load.ts'
import type { createLoad } from '../../service/config/loader.ts'
import type { SupplierConfig } from '../../service/config/schema.ts'
import { startService } from '../../service/service.ts'
import { newFolder, type Running } from './process.ts'
import { type NodeOptions, nodeOf, yamlOf } from './service-node.ts'

/**
 * Does what `createLoad` does without its thread, whose start costs as much CPU as the rest of a served node's. A file of
 * `suppliersFrom` with a fault refuses the reload.
 */
const loadHere: typeof createLoad = (file) => {
  let known = new Map<string, SupplierConfig>()
  return async () => {
    const { config, ...loaded } = loadConfig(file, known.size > 0)
    if (config === null) return { config, ...loaded }
    known = new Map(
      config.suppliers.map((supplier) => {
        const text = JSON.stringify(supplier)
        return [text, known.get(text) ?? supplier]
      }),
    )
    return { config: { ...config, suppliers: [...known.values()] }, ...loaded }
  }
}

/** `stderr` has its log, of every level. */
export async function serveBidweir(
  yaml: string,
  folder = newFolder(),
  loadOf: typeof createLoad = loadHere,
): Promise<Running> {
  const file = join(folder, 'bidweir.yaml')
  writeFileSync(file, yaml)
  const load = loadOf(file)
  const loaded = await load()
  const { config, faults } = loaded
  if (config === null) throw new Error(JSON.stringify(faults))
  let logged = ''
  const write = (fields: object, msg: string) => {
    logged += `${JSON.stringify({ ...fields, msg })}\n`
  }
  const log = { level: config.log.level, info: write, warn: write, error: write }
  const service = await startService({ loaded: { ...loaded, config }, load, log, watch: null })
  const exited = Promise.withResolvers<number>()
  let stopped: Promise<void> | null = null
  return {
    folder,
    proxyPort: service.proxyPort,
    adminPort: service.adminPort,
    noticesPort: service.noticesPort,
    agentPort: service.agentPort,
    password: service.firstUser?.password ?? null,
    stdout: () => '',
    stderr: () => logged,
    exited: exited.promise,
    async stop() {
      stopped ??= service.stop(0, config.drain.timeout)
      await stopped
      exited.resolve(0)
      return 0
    },
  }
}

export const serveNode = async (
  options: Omit<NodeOptions, 'workers' | 'preload' | 'program' | 'ahead'>,
) => nodeOf(await serveBidweir(yamlOf(options), options.folder), options)

export type ServedNode = Awaited<ReturnType<typeof serveNode>>

/** Nodes publish their figures every ten seconds: from now on every second, as tests wait for that. */
export function publishSooner(): void {
  const { setInterval: real } = globalThis
  const sooner = (run: () => void, ms?: number) => real(run, ms === 10_000 ? 1000 : ms)
  globalThis.setInterval = sooner as typeof setInterval
}
