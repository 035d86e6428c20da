/** Requests and responses as dense as those of an exchange: 800 tokens a request, UTF-8, escapes, 13 macros a bid. */
import { source } from '../../test/support/random.ts'

const next = source(42)
const hex = (length: number) =>
  Array.from({ length }, () => Math.floor(next() * 16).toString(16)).join('')
const uuid = () => [8, 4, 4, 4, 12].map(hex).join('-')

function request(at: number) {
  const publisher = { id: `pub-${hex(10)}`, name: 'Great Publisher B.V.', cat: ['IAB1'] }
  const content = { id: hex(10), domain: 'news.example', cat: ['IAB9-30', 'IAB12'], publisher }
  const deals = [
    { id: `deal-${hex(8)}`, bidfloor: 1.5, bidfloorcur: 'USD', at: 1, wseat: ['s1', 's22'] },
    { id: `deal-${hex(8)}`, bidfloor: 2.5, at: 3 },
  ]
  const app = { ...content, name: 'Word Puzzle été 中', bundle: 'com.example.wordpuzzle' }
  const site = { ...content, page: `https://news.example/${hex(60)}`, ref: 'https://www.example/' }
  return {
    id: uuid(),
    at: 1,
    tmax: 250,
    cur: ['USD'],
    imp: [
      {
        id: '1',
        tagid: hex(12),
        secure: 1,
        bidfloor: 0.35 + at * 0.11,
        bidfloorcur: 'USD',
        displaymanager: 'sdk',
        banner: {
          w: 320,
          h: 50,
          format: [320, 300, 728].map((w) => ({ w, h: 50 })),
          battr: [1, 3, 5, 8, 9, 10, 14, 16, 17],
          api: [3, 5, 6, 7],
          mimes: ['text/html', 'image/jpeg', 'image/png', 'text/javascript'],
        },
        metric: ['viewability', 'ctr'].map((type) => ({ type, value: 0.73, vendor: 'EXCHANGE' })),
        ...(at % 4 === 1 ? { pmp: { private_auction: 0, deals } } : {}),
      },
    ],
    device: {
      ua: 'Mozilla/5.0 (Linux; Android 14; SM-S918B Build/UP1A.231005.007; wv) AppleWebKit/537.36 Chrome/126.0 Safari/537.36',
      sua: { browsers: [{ brand: 'Chromium', version: ['126', '0', '6478', '122'] }], mobile: 1 },
      geo: { lat: 52.3702, lon: 4.8952, type: 2, country: 'NLD', region: 'NH', zip: '1012' },
      dnt: 0,
      lmt: 0,
      ip: `203.0.113.${at}`,
      devicetype: 4,
      make: 'Samsung',
      model: 'SM-S918B',
      os: 'Android',
      osv: '14',
      h: 2316,
      w: 1080,
      ppi: 420,
      js: 1,
      language: 'en',
      carrier: 'KPN',
      ifa: uuid(),
    },
    user: {
      id: hex(32),
      data: [{ id: '1', segment: ['121', '4455', '998'].map((id) => ({ id })) }],
      ext: {
        consent: hex(150),
        eids: Array.from({ length: 3 }, () => ({ source: 'id.example', uids: [{ id: hex(44) }] })),
      },
    },
    regs: { coppa: 0, ext: { gdpr: 1, us_privacy: '1YNN' } },
    bcat: ['IAB7-39', 'IAB8-18', 'IAB8-5', 'IAB9-9', 'IAB25', 'IAB26'],
    source: {
      tid: uuid(),
      ext: { schain: { ver: '1.0', nodes: [{ asi: 'exchange.example', sid: hex(12), hp: 1 }] } },
    },
    ...(at % 2 === 0 ? { app } : { site }),
  }
}

const track = (event: string) =>
  `https://t.example/${event}?price=\${AUCTION_PRICE}&svc_opd=\${SVC_OPD_CONTEXT}&c=${hex(28)}&in=\${SVC_OPD_IN_BID_PRICE}&out=\${SVC_OPD_OUT_BID_PRICE}&m=\${SVC_OPD_MODE}`

const pixel = (url: string) => `<img src="${url}" width="1" height="1" style="display:none">`
const banner = (pixels: number) =>
  `<div id="ad-${hex(6)}" style="width:320px"><a href="https://click.example/c?u=${hex(64)}" target="_blank"><img src="https://cdn.example/${hex(32)}.jpg" alt="Brand — café"></a>\n${pixel(track('imp'))}${Array.from({ length: pixels }, () => pixel(`https://px.example/p.gif?x=${hex(60)}`)).join('')}</div>`

const event = (name: string) =>
  `<Tracking event="${name}"><![CDATA[https://evt.example/v?i=${hex(80)}&ts=[TIMESTAMP]]]></Tracking>\n`
const vast = () =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<VAST version="3.0"><Ad id="${hex(8)}"><InLine><AdTitle>Brand — video</AdTitle>\n<Impression><![CDATA[${track('vimp')}]]></Impression>${Array.from({ length: 65 }, () => event('complete')).join('')}</InLine></Ad></VAST>`

function response(bids: number, adm: () => string): Buffer {
  const bid = (_each: unknown, at: number) => ({
    id: `bid-${hex(16)}-${at}`,
    impid: '1',
    price: 2.4173,
    adid: hex(8),
    nurl: track('win'),
    burl: track('bill'),
    lurl: `https://t.example/loss?svc_opd=\${SVC_OPD_CONTEXT}&c=${hex(16)}`,
    adm: adm(),
    adomain: ['brand.example'],
    cid: hex(10),
    crid: hex(12),
    cat: ['IAB2-3'],
    w: 320,
    h: 50,
    ext: { brand_id: 123, dsa: { behalf: 'Brand Inc', paid: 'Brand Inc' } },
  })
  const seat = { seat: 's22', group: 0, bid: Array.from({ length: bids }, bid) }
  return Buffer.from(JSON.stringify({ id: uuid(), cur: 'USD', seatbid: [seat] }))
}

export const requests = Array.from({ length: 8 }, (_each, at) =>
  Buffer.from(JSON.stringify(request(at))),
)
export const responses: Readonly<Record<string, Buffer>> = {
  'banner, 3 KB': response(1, () => banner(9)),
  'VAST, 12 KB': response(1, vast),
  '50 bids': response(50, () => banner(0)),
  '200 bids': response(200, () => banner(0)),
}
