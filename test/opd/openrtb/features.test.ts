/** Features of a bid: format, size, auction and placement, and nothing about the person (CONTRACT 5). */
import t from 'tap'
import { type RewriteCase, run } from '../../support/rewrite.ts'

/** The features that are known. */
const featuresOf = (rewriteCase: Omit<RewriteCase, 'title'>): Record<string, unknown> => {
  const { features } = run({ title: '', opd: { audio: true }, ...rewriteCase }).priced[0]!
  return Object.fromEntries(Object.entries(features).filter(([, value]) => value !== undefined))
}

const banner = '"banner":{"w":300,"h":250}'
const deal = (more: string) => `"pmp":{"deals":[{"id":"d1"${more}}]}`
const rows: [string, Omit<RewriteCase, 'title'>, Record<string, unknown>][] = [
  ['nothing known', {}, {}],
  ['a banner', { imp: banner }, { format: 'banner', size: '300x250' }],
  ['a video', { imp: '"video":{}' }, { format: 'video' }],
  [
    'a video with the size of its player',
    { imp: '"video":{"w":640,"h":360}' },
    { format: 'video', size: '640x360' },
  ],
  [
    'a video beside a banner',
    { imp: `"video":{"w":640,"h":360},${banner}`, bid: '"mtype":2' },
    { format: 'video', size: '640x360' },
  ],
  [
    'a video with its own size',
    { imp: '"video":{"w":640,"h":360}', bid: '"w":320,"h":180' },
    { format: 'video', size: '320x180' },
  ],
  ['half a player', { imp: '"video":{"w":640}' }, { format: 'video', size: undefined }],
  [
    'where the user lives, without the place of the device',
    { root: '"user":{"geo":{"country":"FRA"}},"device":{"geo":{}}' },
    { country: 'FRA' },
  ],
  [
    'where the device is',
    { root: '"user":{"geo":{"country":"FRA"}},"device":{"geo":{"country":"DEU"}}' },
    { country: 'DEU' },
  ],
  [
    'a user that is repeated',
    { root: '"user":{},"user":{"geo":{"country":"FRA"}}' },
    { country: 'FRA' },
  ],
  ['a user that is text', { root: '"user":"FRA"' }, { country: undefined }],
  ['native', { imp: '"native":{}' }, { format: 'native' }],
  ['audio', { imp: '"audio":{}' }, { format: 'audio' }],
  ['of several the visible one', { imp: `"video":{},"audio":{},${banner}` }, { format: 'banner' }],
  ['what the bid says it is', { imp: banner, bid: '"mtype":4' }, { format: 'native' }],
  ['an unknown mtype', { imp: banner, bid: '"mtype":9' }, { format: 'banner' }],
  ['its own size', { imp: banner, bid: '"w":320,"h":50' }, { size: '320x50' }],
  ['half a size', { imp: banner, bid: '"w":320' }, { size: '300x250' }],
  ['a size of nothing', { imp: banner, bid: '"w":0,"h":50' }, { size: '300x250' }],
  ['another of nothing', { imp: banner, bid: '"w":320,"h":0' }, { size: '300x250' }],
  ['a size that is text', { imp: banner, bid: '"w":"320","h":50' }, { size: '300x250' }],
  ['another that is text', { imp: banner, bid: '"w":320,"h":"50"' }, { size: '300x250' }],
  [
    'a list of sizes',
    { imp: '"banner":{"format":[{"w":1,"h":2},{"w":3,"h":4}]}' },
    { size: '1x2' },
  ],
  ['first price', { root: '"at":1' }, { auction: 1 }],
  ['second price', { root: '"at":2' }, { auction: 2 }],
  ['an auction of another kind', { root: '"at":500' }, { auction: undefined }],
  [
    'the auction of its deal',
    { root: '"at":1', imp: deal(',"at":2'), bid: '"dealid":"d1"' },
    { auction: 2, deal: 'd1' },
  ],
  [
    'a deal that does not say',
    { root: '"at":2', imp: deal(''), bid: '"dealid":"d1"' },
    { auction: 2, deal: 'd1' },
  ],
  [
    'a page without domain',
    { root: '"site":{"page":"https://a.example/x?y"}' },
    { domain: 'a.example' },
  ],
]
for (const [name, title, wanted] of rows)
  t.test(name, (t) => {
    const found = featuresOf(title)
    for (const [key, value] of Object.entries({ seat: 's1', ...wanted }))
      t.equal(found[key], value, key)
    if (Object.keys(wanted).length === 0) t.strictSame(found, { seat: 's1' })
    t.end()
  })

t.test('no other member of a request is a feature', (t) => {
  const root =
    '"user":{"id":"u","yob":1980,"geo":{"country":"FRA","city":"c"}},"device":{"ip":"1.2.3.4","ifa":"i","ua":"b","devicetype":4,"geo":{"country":"DEU","lat":52.5}},"site":{"domain":"a.example","keywords":"k","publisher":{"id":"p"}}'
  const imp = `${banner},"tagid":"top","ext":{"secret":1}`
  t.strictSame(featuresOf({ root, imp }), {
    publisher: 'p',
    domain: 'a.example',
    placement: 'top',
    country: 'DEU',
    device: '4',
    format: 'banner',
    size: '300x250',
    seat: 's1',
  })
  t.end()
})

t.test('a long name is hashed for each bid, so it is shortened; long names stay different', (t) => {
  const featuresWith = (name: string, seat: string) =>
    featuresOf({
      root: `"site":{"domain":"d${name}","publisher":{"id":"p${name}"}},"device":{"geo":{"country":"c${name}"}}`,
      imp: `"tagid":"t${name}","pmp":{"deals":[{"id":"${name}"}]}`,
      raw: `{"seatbid":[{"seat":"${seat}","bid":[{"id":"b","impid":"1","dealid":"${name}","price":2,"nurl":"svc_opd=\${SVC_OPD_CONTEXT}"}]}]}`,
    })
  const long = 'n'.repeat(300_000)
  const features = featuresWith(long, long)
  for (const key of ['publisher', 'domain', 'placement', 'country', 'deal', 'seat'])
    t.equal((features[key] as string).length, 1024, key)
  for (const other of [`x${long.slice(1)}`, `${long.slice(1)}x`, `${long}n`])
    t.not(featuresWith('n', other).seat, features.seat)
  const longest = 'n'.repeat(1023)
  t.match(featuresWith(longest, longest), {
    publisher: `p${longest}`,
    seat: longest,
    deal: longest,
  })
  t.end()
})

t.test('the host of a page is searched in its first 1,024 characters', (t) => {
  const domainOf = (page: string) => featuresOf({ root: `"site":{"page":"${page}"}` }).domain
  t.equal(domainOf(`https://news.example/${'p'.repeat(300_000)}`), 'news.example')
  t.equal(domainOf(`https://${'u'.repeat(2000)}@news.example/`), 'u'.repeat(1016))
  t.equal(domainOf(`${'s'.repeat(300_000)}://news.example/`), undefined)
  t.end()
})
