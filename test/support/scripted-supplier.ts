/** A proxy in front of one supplier that answers by a script of bytes. */
import type { Test } from 'tap'
import { idleEngine, sample, startProxy, type TestProxy } from './proxy.ts'
import { rawSupplier } from './supplier.ts'

export type Script = Parameters<typeof rawSupplier>[0]

export const readsAll = { readsResponses: () => true }

export async function scripted(t: Test, script: Script, route: object = {}, engine = {}) {
  const supplier = await rawSupplier(script)
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], ...route } },
    { engine: idleEngine(engine) },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  return { supplier, proxy }
}

export const outcome = (proxy: TestProxy, name: string) =>
  sample(proxy.registry, `bidweir_requests_total{ssp="acme",outcome="${name}"}`)
