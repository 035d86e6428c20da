/** A proxy in front of one host that `/pass/acme/…` leads to, and callers of it. */
import type { Test } from 'tap'
import { startProxy } from './proxy.ts'
import { rawSupplier, type TestSupplier } from './supplier.ts'

export const origin = (supplier: TestSupplier) => new URL(supplier.url).origin

export const get = (path: string, headers = '') =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n${headers}\r\n`)

/** `supplier`, or a script for one of raw bytes, is behind `/pass/acme/` until the test ends. */
export async function passTo(t: Test, host: TestSupplier | Parameters<typeof rawSupplier>[0]) {
  const supplier = typeof host === 'function' ? await rawSupplier(host) : host
  const proxy = await startProxy({
    acme: { endpoints: [supplier.url], passThrough: origin(supplier) },
  })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  return { proxy, supplier }
}
