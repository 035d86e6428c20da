/**
 * No user or device id, address, consent string, user agent or body is ever stored, logged, or put into contexts and
 * decision logs; queries of /opd/imp are not logged (CONTRACT 5). All that a node leaves behind is read.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { createContextCodec, Nonces } from '../../opd/pricing/context.ts'
import { newFolder, startBidweir, token } from '../support/process.ts'
import { raw } from '../support/raw.ts'
import { yamlOf } from '../support/service-node.ts'
import { httpSupplier } from '../support/supplier.ts'

/** Neither they nor parts of them occur anywhere else. */
const secrets = {
  user: 'qzuser7731',
  buyer: 'qzbuyer7732',
  eid: 'qzeid7733',
  consent: 'qzCPXxRfAPXxRfAAfKABENB7734',
  gpp: 'qzDBACNYA7735',
  ip: '203.0.113.177',
  ipv6: '2001:db8::7736',
  forwarded: '198.51.100.177',
  ifa: 'qzifa7737',
  dpid: 'qzdpidmd57738',
  ua: 'qzMozilla7739',
  model: 'qzmodel7740',
  latitude: '52.3456789',
  page: 'qzpage7741',
  keywords: 'qzkeywords7742',
  ext: 'qzext7743',
  cookie: 'qzcookie7744',
  markup: 'qzmarkup7745',
  query: 'qzquery7746',
}

const key = Buffer.alloc(32, 6)
const request = (id: string) => ({
  id,
  imp: [{ id: '1', banner: { w: 300, h: 250 }, tagid: 'top', ext: { secret: secrets.ext } }],
  site: {
    domain: 'news.example',
    page: `https://news.example/?${secrets.page}`,
    keywords: secrets.keywords,
    publisher: { id: 'pub-1' },
  },
  user: {
    id: secrets.user,
    buyeruid: secrets.buyer,
    consent: secrets.consent,
    eids: [{ source: 'x', uids: [{ id: secrets.eid }] }],
  },
  regs: { gpp: secrets.gpp },
  device: {
    ip: secrets.ip,
    ipv6: secrets.ipv6,
    ifa: secrets.ifa,
    dpidmd5: secrets.dpid,
    ua: secrets.ua,
    model: secrets.model,
    geo: { country: 'DEU', lat: Number(secrets.latitude) },
  },
})
const nurl = 'https://t.example/?svc_opd=${SVC_OPD_CONTEXT}'
const bid = (id: string) => ({
  id,
  impid: '1',
  price: 1.5,
  dsp_id: 'd',
  nurl,
  adm: `<b>${secrets.markup}</b>`,
})

/** The text of every file below, unpacked where it is packed. */
function textsBelow(folder: string): [string, string][] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((file) => statSync(file).isFile() && !file.endsWith('bidweir.yaml'))
    .map((file) => {
      const bytes = readFileSync(file)
      return [file, (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('latin1')]
    })
}

t.test('logs, files, database and Redis contain no personal data', async (t) => {
  const supplier = await httpSupplier((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify({ id: 'r1', seatbid: [{ seat: 's', bid: [bid('b1'), bid('b2')] }] }),
    )
  })
  const folder = newFolder()
  const yaml = yamlOf({
    endpoint: supplier.url,
    auth: 'none',
    more: `opd: {keys: [{id: 1, secret: ${key.toString('base64url')}}], decisionLog: {path: data/d.ndjson}}`,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
  })
  const broken = '  - {id: broken, endpoints: ["http://127.0.0.1:1/"], opd: {enabled: true}}\n'
  const bidweir = await startBidweir(
    `${yaml.replace('level: warn', 'level: debug')}${broken}`,
    folder,
  )
  t.teardown(async () => {
    await bidweir.stop('SIGKILL')
    await supplier.close()
  })
  const headers = {
    'content-type': 'application/json',
    'user-agent': secrets.ua,
    'x-forwarded-for': secrets.forwarded,
    cookie: `id=${secrets.cookie}`,
  }
  const bids = `http://127.0.0.1:${bidweir.proxyPort}`
  const admin = `http://127.0.0.1:${bidweir.adminPort}`
  const post = async (url: string, body: object | string, more: Record<string, string> = {}) => {
    const asIs = typeof body === 'string' || Buffer.isBuffer(body)
    const answer = await fetch(url, {
      method: 'POST',
      headers: { ...headers, ...more },
      body: asIs ? (body as string) : JSON.stringify(body),
    })
    return { status: answer.status, text: await answer.text() }
  }

  // Bids that are priced, that cannot be read, that reach no supplier; and invalid requests.
  const requestText = JSON.stringify(request('r1'))
  const priced = await post(`${bids}/bid/acme?${secrets.query}`, requestText)
  t.equal(priced.status, 200)
  t.ok(priced.text.includes(secrets.markup), 'they go through')
  await post(`${bids}/bid/acme`, gzipSync(requestText), { 'content-encoding': 'gzip' })
  t.equal((await post(`${bids}/bid/broken`, requestText)).status, 204)
  await post(`${bids}/bid/acme`, requestText.slice(0, -9))
  await post(`${bids}/bid/nobody/${secrets.query}`, requestText)
  await post(`${bids}/pass/acme/${secrets.query}`, requestText)
  const odd = `POST /bid/acme HTTP/1.1\r\nHost: a\r\nCookie: ${secrets.cookie}\r\nContent-Length: x\r\n\r\n`
  await raw(bidweir.proxyPort, `${odd}${requestText}`, () => false)

  const access = `Bearer ${await token(bidweir)}`
  const standalone = { ...request('r2'), seatbid: [{ bid: [bid('b3')] }] }
  const answered = await post(`${admin}/opd/acme_yesbid`, standalone, { authorization: access })
  t.equal(answered.status, 200)
  const wrong = { ...standalone, seatbid: [{ bid: [{ id: secrets.user, price: secrets.ext }] }] }
  t.equal((await post(`${admin}/opd/acme_yesbid`, wrong, { authorization: access })).status, 400)

  const svc_opd = /svc_opd=([\w-]+)/.exec(priced.text)![1]!
  for (const query of [
    `bid_id=b1&price=0.9&svc_opd=${svc_opd}`,
    'bid_id=b2&price=0.9',
    'bid_id=b2&price=x',
    'bid_id=ghost&price=0.9&svc_opd=forged',
  ])
    await fetch(`${admin}/opd/imp?${query}&ip=${secrets.ip}&x=${secrets.query}`, { headers })
  const metrics = await (await fetch(`${admin}/metrics`)).text()
  t.match(metrics, /bidweir_impressions_total\{ssp="acme"[^}]*attributed[^}]*\} 1/)
  t.equal(await bidweir.stop(), 0)

  const codec = createContextCodec([{ id: 1, secret: key }], 3_600_000, new Nonces())
  const { record, state } = codec.decode(svc_opd, 'b1', Date.now())
  t.equal(state, 'valid')
  const left: [string, string][] = [
    ...textsBelow(folder),
    ['stdout', bidweir.stdout()],
    ['stderr', bidweir.stderr()],
    ['metrics', metrics],
    [
      'the context',
      `${JSON.stringify(record)} ${Buffer.from(record!.features).toString('latin1')}`,
    ],
  ]
  const names = left.map(([name]) => name).join(' ')
  for (const some of [/bidweir\.db/, /d\.ndjson/, /revenue-0+1-/]) t.match(names, some)
  t.match(left.find(([name]) => name.endsWith('bidweir.db'))![1], /ghost/, 'the ledger is read')
  for (const [what, secret] of Object.entries(secrets))
    for (const [name, text] of left) {
      const index = text.indexOf(secret)
      if (index >= 0)
        t.fail(`${what} in ${name}: ${text.slice(Math.max(0, index - 80), index + 40)}`)
    }
})
