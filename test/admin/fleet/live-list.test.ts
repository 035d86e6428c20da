/** The list that consoles poll: all rows at first, then those that have changed, and only those of the account. */

import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import type { LiveListAnswer, LiveSnapshot } from '../../../admin/fleet/live-schema.ts'
import { token } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier, yamlOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

t.test('the list of suppliers', async (t) => {
  const supplier = await echoSupplier()
  const suppliers = Array.from(
    { length: 30 },
    (_, n) => `id: s${n}, name: Supplier ${n}, account: a${n % 2}, opd: {enabled: true}`,
  )
  const options = { suppliers, endpoint: supplier.url }
  const node = await serveNode(options)
  t.teardown(async () => {
    await node.bidweir.stop()
    await supplier.close()
  })
  const access = await node.login()
  const read = async (since = '', bearer = access) => {
    const headers = { authorization: `Bearer ${bearer}` }
    const response = await fetch(`${node.admin}/api/svc/live/list/?since=${since}`, { headers })
    return (await response.json()) as LiveListAnswer
  }
  const ids = ({ integrations }: LiveListAnswer) => integrations.map(({ ssp }) => ssp)

  t.test('the first answer has all suppliers, the next ones what has changed', async (t) => {
    const first = await read()
    t.equal(first.whole, true)
    t.equal(first.integrations.length, 30)
    t.match(first, { scope: 'all nodes', caller: { account: '*' }, heldAll: false })
    await node.bid({ id: 'b1', ssp: 's7' })
    let next = first
    await until(async () => {
      next = await read(first.tag)
      return next.integrations.length > 0
    })
    t.equal(next.whole, false)
    t.same(ids(next), ['s7'])
    t.match(next.integrations[0], { total: 1, sent: 1, health: { level: 'ok' } })
    t.same(ids(await read((await read()).tag)), [], 'nothing has changed since')
    t.equal((await read('never-1')).whole, true, 'the tag of another node')
  })

  t.test('a hold is shown at once', async (t) => {
    const { tag } = await read()
    const held = await fetch(`${node.admin}/api/svc/opd/s3/`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${access}`, 'content-type': 'application/json' },
      body: '{"hold":true}',
    })
    t.equal(held.status, 200)
    await until(async () => ids(await read(tag)).includes('s3'))
  })

  t.test('an account sees its own suppliers alone', async (t) => {
    const user = { name: 'b', password: 'secret-1', roles: ['viewer'], account: 'a1' }
    const added = await fetch(`${node.admin}/api/svc/users/`, {
      method: 'POST',
      headers: { authorization: `Bearer ${access}`, 'content-type': 'application/json' },
      body: JSON.stringify(user),
    })
    t.equal(added.status, 201)
    const bearer = (await token(node.bidweir, 'b', 'secret-1'))!
    const { integrations, unplaced } = await read('', bearer)
    t.equal(integrations.length, 15)
    t.ok(integrations.every(({ account }) => account === 'a1'))
    t.same(unplaced, {})
    const headers = { authorization: `Bearer ${bearer}` }
    const one = async (ssp: string) => fetch(`${node.admin}/api/svc/live/?ssp=${ssp}`, { headers })
    t.equal((await one('s2')).status, 404)
    const { integrations: listed } = (await (await one('s1')).json()) as LiveSnapshot
    t.match(listed, [{ ssp: 's1', endpoints: [{ state: 'up' }] }])
    t.equal(listed.length, 1)
  })

  t.test('the list is compressed if the caller accepts that', async (t) => {
    const raw = (encoding: string) =>
      new Promise<{ coding: string | undefined; bytes: Buffer }>((resolve, reject) => {
        const headers = { authorization: `Bearer ${access}`, 'accept-encoding': encoding }
        request(`${node.admin}/api/svc/live/list/`, { headers }, async (response) => {
          const chunks: Buffer[] = []
          for await (const chunk of response) chunks.push(chunk as Buffer)
          t.equal(response.headers.vary, 'accept-encoding')
          const bytes = Buffer.concat(chunks)
          t.equal(Number(response.headers['content-length']), bytes.length)
          resolve({ coding: response.headers['content-encoding'], bytes })
        })
          .on('error', reject)
          .end()
      })
    const [plain, small, refused] = [
      await raw('identity'),
      await raw('br, gzip;q=0.5'),
      await raw('gzip;q=0'),
    ]
    t.same([plain.coding, small.coding, refused.coding], [undefined, 'gzip', undefined])
    t.ok(small.bytes.length < plain.bytes.length / 4)
    const answer = JSON.parse(gunzipSync(small.bytes).toString()) as LiveListAnswer
    t.equal(answer.integrations.length, 30)
  })

  t.test('after a supplier was removed, all are sent again', async (t) => {
    const { tag } = await read()
    const yaml = yamlOf({ ...options, suppliers: suppliers.slice(1) })
    writeFileSync(join(node.bidweir.folder, 'bidweir.yaml'), yaml)
    await until(async () => (await read(tag)).whole)
    t.same(ids(await read()).length, 29)
  })
})
