/** The discrepancy report after every kind of notice: each is counted in its column. */
import t from 'tap'
import { newFolder, token } from '../../support/process.ts'
import { serveBidweir } from '../../support/served-node.ts'

const folder = newFolder()
const bidweir = await serveBidweir(
  `
proxy: {listen: 127.0.0.1:0}
admin: {listen: 127.0.0.1:0, impressions: {auth: none}}
store: {database: 'sqlite:${folder}/b.db'}
suppliers:
  - {id: acme, endpoints: ['http://127.0.0.1:9/'], account: a, opd: {enabled: true, holdout: 0}}
  - {id: other, endpoints: ['http://127.0.0.1:9/'], account: b, opd: {enabled: true}}
`,
  folder,
)
t.teardown(() => bidweir.stop())
const base = `http://127.0.0.1:${bidweir.adminPort}`
const headers = {
  authorization: `Bearer ${await token(bidweir)}`,
  'content-type': 'application/json',
}

interface Priced {
  id: string
  modified_price: number
  svc_opd: string
}

async function price(ids: string[], publisher: string, seat = 'buyer-1'): Promise<Priced[]> {
  const bid = ids.map((id) => ({ id, impid: '1', price: 2, dsp_id: 'd', price_dsp: 2 }))
  const site = { domain: '=SUM(A1)', publisher: { id: publisher } }
  const body = JSON.stringify({ seatbid: [{ seat, bid }], site })
  const answer = await fetch(`${base}/opd/acme_yesbid`, { method: 'POST', headers, body })
  return (await answer.json()) as Priced[]
}

async function notify(fields: Record<string, string>): Promise<string> {
  const answer = await fetch(`${base}/opd/imp?${new URLSearchParams(fields)}`)
  return ((await answer.json()) as { status: string }).status
}

const report = async (query: string) =>
  fetch(`${base}/api/svc/reports/discrepancy?${query}`, { headers })

t.test('decided, won, unattributed, duplicate, cleared against out_ba', async (t) => {
  const [one, two] = await price(['b1', 'b2', 'b3'], 'pub "1", x')
  const [three] = await price(['b4'], 'pub-2', `${'long '.repeat(20)}buyer`)
  const notice = ({ id, modified_price, svc_opd }: Priced, over = {}) =>
    notify({ bid_id: id, price: String(modified_price), svc_opd, ...over })
  t.equal(await notice(one!), 'attributed')
  t.equal(await notice(one!), 'duplicate')
  t.equal(await notify({ bid_id: 'b1', price: '1' }), 'duplicate')
  const above = (two!.modified_price * 1.25).toFixed(4)
  t.equal(await notice(two!, { price: above }), 'attributed', 'above what was asked')
  t.equal(await notice(three!), 'attributed')
  t.equal(await notice(three!), 'duplicate')
  t.equal(await notify({ bid_id: 'ghost', price: '1', ssp: 'acme' }), 'unattributed')
  t.equal(await notify({ bid_id: 'ghost', price: '1', ssp: 'acme' }), 'duplicate')
  t.equal(await notify({ bid_id: 'b3', price: 'AUDIT' }), 'ignored')

  const [row] = (await (await report('ssp=acme&by=ssp')).json()) as Record<string, unknown>[]
  t.match(row, {
    key: 'acme',
    decided: 4,
    wins: 3,
    unattributed: 1,
    duplicate: 4,
    late: 0,
    over: 1,
  })
  const out = Number(row!['out_ba'])
  const difference = Number(row!['cleared']) - out
  t.ok(Math.abs(Number(row!['difference']) - difference) < 1e-9, `${row!['difference']}`)
  const rows = (await (await report('ssp=acme&by=publisher')).json()) as Record<string, unknown>[]
  t.match(
    rows.map(({ key, decided, wins, duplicate }) => [key, decided, wins, duplicate]),
    [
      ['', 0, 0, 1],
      ['pub "1", x', 3, 2, 2],
      ['pub-2', 1, 1, 1],
    ],
  )
  const seats = (await (await report('ssp=acme&by=seat')).json()) as Record<string, unknown>[]
  t.match(
    seats.map(({ key, decided, wins, duplicate }) => [key, decided, wins, duplicate]),
    [
      ['', 0, 0, 1],
      ['buyer-1', 3, 2, 2],
      [/^long .*~[0-9a-f]{16}$/, 1, 1, 1],
    ],
    'each win by its seat, a long name cut with its hash',
  )
  for (const by of ['hour', 'day']) {
    const [all] = (await (await report(`ssp=acme&by=${by}`)).json()) as Record<string, unknown>[]
    t.match(all, { decided: 4, wins: 3, duplicate: 4 }, by)
  }
})

t.test('CSV: RFC 4180, no formulas', async (t) => {
  const answer = await report('ssp=acme&by=publisher&format=csv')
  t.match(answer.headers.get('content-type'), /^text\/csv/)
  const lines = (await answer.text()).split('\r\n')
  t.equal(lines.at(-1), '', 'each line ends')
  t.match(lines[0], /^publisher,decided,wins,unattributed,duplicate,/)
  t.match(lines[2], /^"pub ""1"", x",3,2,/)
  const domains = await (await report('ssp=acme&by=domain&format=csv')).text()
  t.match(domains, /\r\n'=sum\(a1\),4,3,/, 'a name that a spreadsheet would run is text')
  // where lists are parted by semicolons or tabs, what follows one is a cell of its own
  await price(['c1'], 'x;=1+1')
  await price(['c2'], 'x\t=1+1')
  await price(['c3'], '＝1+1')
  await price(['c4'], '|calc')
  const publishers = await (await report('ssp=acme&by=publisher&format=csv')).text()
  t.match(publishers, '\r\n"x;=1+1",1,')
  t.match(publishers, '\r\n"x\t=1+1",1,')
  t.match(publishers, "\r\n'＝1+1,1,")
  t.match(publishers, "\r\n'|calc,1,")
})
