/** `headers` of a supplier: what is set and removed in the requests to its endpoints. */
import t from 'tap'
import { startProxy } from '../../support/proxy.ts'
import { keptOpen, post } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'

/** The values of a header, by its name in any case. */
const valuesOf = (headers: readonly string[], wanted: string) =>
  headers.filter((_value, index) => index % 2 === 1 && headers[index - 1]!.toLowerCase() === wanted)

for (const lane of ['fast', 'general'] as const)
  t.test(`${lane} lane: headers are set, replaced and removed`, async (t) => {
    const supplier = await httpSupplier((_request, response) => response.end('{}'))
    const endpoints = [supplier.url]
    const headers = {
      set: { 'X-Region': 'eu', 'X-Openrtb-Version': '2.6' },
      remove: ['X-Debug', 'x-forwarded-for'],
      secretFrom: { Authorization: 'Bearer s3cret' },
    }
    const proxy = await startProxy({ acme: { endpoints, headers } }, { lane })
    const caller = keptOpen(proxy.port)
    t.teardown(() => {
      caller.end()
      return Promise.all([proxy.close(), supplier.close()])
    })
    const sent =
      'X-Debug: 1\r\nx-openrtb-version: 2.5\r\nauthorization: Basic mine\r\nX-Kept: yes\r\n'
    const seen = async (name: string) => {
      const { status, headers } = await caller.ask(post('/bid/acme', '{}', sent))
      t.equal(status, 200, headers['x-bidweir-reason'] ?? 'answered')
      return valuesOf(supplier.requests.at(-1)!.headers, name)
    }
    t.same(await seen('x-region'), ['eu'])
    t.same(await seen('x-openrtb-version'), ['2.6'], 'in place of the caller’s')
    t.same(await seen('authorization'), ['Bearer s3cret'])
    t.same(await seen('x-debug'), [])
    t.same(await seen('x-forwarded-for'), [])
    t.same(await seen('x-kept'), ['yes'])
    t.same(await seen('host'), [new URL(supplier.url).host])

    const rotated = { secretFrom: { Authorization: 'Bearer n3xt' } }
    proxy.setSupplier('acme', { endpoints, headers: rotated })
    t.same(await seen('authorization'), ['Bearer n3xt'], 'the same caller, after a reload')
    t.same(await seen('x-debug'), ['1'])
    proxy.setSupplier('acme', { endpoints })
    t.same(await seen('authorization'), ['Basic mine'])
    t.equal(supplier.connections, 1)
    t.notMatch(JSON.stringify([proxy.lines, await proxy.registry.metrics()]), /s3cret|n3xt/)
  })
