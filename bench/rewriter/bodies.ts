/** Bodies of the rewriter's bench: the shape of real exchanges, sizes of the claims. */

const link = 'https:\\/\\/t.example\\/c?svc_opd=${SVC_OPD_CONTEXT}&p=${AUCTION_PRICE}'
const banner = `<div class=\\"ad\\"><a href=\\"${link}\\"><img src=\\"https:\\/\\/i.example\\/i.png\\"><\\/a><\\/div>`
const script = `<script>var a=1;function f(){return a+${'1'.repeat(120)}}<\\/script>`
const tracking =
  '<Tracking event=\\"start\\"><![CDATA[https://t.example/e?campaign=123456&creative=98765]]></Tracking>'
const vast = `<VAST version=\\"4.0\\"><Ad><InLine><Impression><![CDATA[${link}]]></Impression>`

function bid(id: number, adm: string): string {
  return `{"id":"b${id}","impid":"1","price":2.15,"adm":"${adm}","nurl":"https://t.example/win?svc_opd=\${SVC_OPD_CONTEXT}&p=\${AUCTION_PRICE}","adomain":["shop.example"],"crid":"c1","w":300,"h":250,"ext":{"line":9007199254740993}}`
}

function answer(bids: number, adm: string): Buffer {
  const all = Array.from({ length: bids }, (_each, at) => bid(at, adm)).join(',')
  return Buffer.from(`{"id":"rq1","seatbid":[{"seat":"s1","bid":[${all}]}],"cur":"USD"}`)
}

export const request = Buffer.from(
  JSON.stringify({
    id: 'rq1',
    at: 1,
    tmax: 200,
    imp: [{ id: '1', bidfloor: 0.5, banner: { w: 300, h: 250 }, tagid: 'top' }],
    site: {
      domain: 'news.example',
      page: `https://news.example/${'a'.repeat(400)}`,
      publisher: { id: 'pub-1' },
    },
    device: { ua: 'Mozilla/5.0 '.repeat(12), geo: { country: 'USA' }, ip: '203.0.113.7' },
    user: {
      ext: { eids: Array(14).fill({ source: 'id.example', uids: [{ id: 'x'.repeat(70) }] }) },
    },
  }),
)

export const bodies: Readonly<Record<string, Buffer>> = {
  'marker absent, 3 KB': Buffer.from(
    answer(1, banner + script.repeat(12))
      .toString()
      .replaceAll('SVC_OPD_CONTEXT', 'THE_BIDS_CONTEXT'),
  ),
  'banner bid, 3 KB': answer(1, banner + script.repeat(13)),
  'VAST, 12 KB': answer(1, vast + tracking.repeat(115)),
  '200 bids': answer(200, banner),
}
