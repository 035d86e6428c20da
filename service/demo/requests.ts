/** Bid requests as an exchange sends them: OpenRTB 2.6, 2.7 to 3 KB of JSON. */
import { pick, type Random } from '../../opd/base/random.ts'
import type { Publisher } from './market.ts'
import type { DemoImp } from './supplier.ts'

export interface MadeRequest {
  id: string
  publisher: string
  body: string
}

export type BodyKind = 'banner' | 'video' | 'native' | 'audio' | 'mix'

const sizes = [
  [300, 250],
  [728, 90],
  [320, 50],
  [970, 250],
  [300, 600],
] as const
const agents = [
  'Mozilla/5.0 (iPhone; CPU iPhone OS 19_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.2 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Linux; Android 16; Pixel 10) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Mobile Safari/537.36',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Safari/537.36',
]
const topics = [
  'local',
  'politics',
  'markets',
  'recipes',
  'football',
  'trains',
  'gardens',
  'phones',
]

const floors = [0.1, 0.25, 0.4, 0.6]

const imps: Readonly<Record<Exclude<BodyKind, 'mix'>, (random: Random) => Partial<DemoImp>>> = {
  banner: (random) => {
    const [w, h] = pick(random, sizes)
    return {
      banner: { w, h, format: sizes.map(([fw, fh]) => ({ w: fw, h: fh })), pos: 1, api: [5, 6, 7] },
    } as Partial<DemoImp>
  },
  video: () => ({
    video: {
      ...{ mimes: ['video/mp4', 'video/webm'], minduration: 5, maxduration: 30, startdelay: 0 },
      ...{ protocols: [2, 3, 5, 6, 7, 8], w: 1280, h: 720, plcmt: 1, linearity: 1, skip: 1 },
    },
  }),
  native: () => ({
    native: {
      ver: '1.2',
      request: JSON.stringify({
        native: {
          ...{ ver: '1.2', context: 1, plcmttype: 1 },
          assets: [
            { id: 1, required: 1, title: { len: 90 } },
            { id: 2, required: 1, img: { type: 3, wmin: 1200, hmin: 627 } },
          ],
        },
      }),
    } as DemoImp['native'] & object,
  }),
  audio: () => ({
    audio: { mimes: ['audio/mpeg'], minduration: 10, maxduration: 30 } as DemoImp['audio'] & object,
  }),
}

/** What a mixed stream consists of, by weight. */
const mixture = [
  'banner',
  'banner',
  'banner',
  'banner',
  'banner',
  'banner',
  'video',
  'video',
  'native',
  'audio',
] as const

/** Publishers in order of their traffic, which follows Zipf's law. */
export function busy(publishers: readonly Publisher[], random: Random): Publisher {
  return publishers[Math.min(publishers.length - 1, Math.floor(publishers.length ** random() - 1))]!
}

function makeImp(id: string, kind: BodyKind, random: Random): DemoImp & Record<string, unknown> {
  const format = kind === 'mix' ? pick(random, mixture) : kind
  const deal = random() < 0.08
  return {
    id,
    ...imps[format](random),
    ...{ tagid: `${format}-${id}`, secure: 1, bidfloor: pick(random, floors), bidfloorcur: 'USD' },
    ...(deal
      ? {
          pmp: {
            private_auction: 0,
            deals: [
              { id: 'deal-7', bidfloor: 0.5, at: random() < 0.3 ? 3 : 1, bidfloorcur: 'USD' },
            ],
          },
        }
      : {}),
    ...{ exp: 1800, ext: { gpid: `/1234/home/${format}#${id}`, dfp: '64-bit' } },
  } as DemoImp & Record<string, unknown>
}

/** One request of a publisher. Every id is derived from `serial` and `random`; nothing personal is in it. */
export function makeRequest(
  serial: string,
  publisher: Publisher,
  kind: BodyKind,
  random: Random,
): MadeRequest {
  const count = random() < 0.8 ? 1 : 2
  const id = `${serial}-${Math.floor(random() * 2 ** 32).toString(36)}`
  const page = `https://www.${publisher.domain}/${pick(random, topics)}/${Math.floor(random() * 1e6)}`
  const request = {
    id,
    at: 1,
    tmax: 200,
    cur: [random() < 0.03 ? 'EUR' : 'USD'],
    imp: Array.from({ length: count }, (_, index) => makeImp(`${index + 1}`, kind, random)),
    site: {
      ...{
        id: `site-${publisher.id}`,
        domain: publisher.domain,
        page,
        ref: 'https://search.example/',
      },
      ...{ cat: ['IAB12', 'IAB12-3'], mobile: 1, privacypolicy: 1 },
      publisher: { id: publisher.id, name: `Publisher ${publisher.id}`, domain: publisher.domain },
      content: { language: 'en', title: 'An afternoon in the old town', keywords: '', len: 300 },
    },
    device: {
      ...{ ua: pick(random, agents), ip: '203.0.113.7', devicetype: pick(random, [1, 2, 4, 5]) },
      ...{
        make: 'Demo',
        model: 'One',
        os: 'iOS',
        osv: '19.2',
        language: 'en',
        js: 1,
        dnt: 0,
        lmt: 0,
      },
      geo: { country: publisher.country, region: 'R1', city: 'Oldtown', type: 2, utcoffset: 60 },
      sua: { browsers: [{ brand: 'Chromium', version: ['146', '0'] }], mobile: 1, source: 2 },
    },
    user: {
      id: `u-${Math.floor(random() * 1e9)}`,
      eids: [{ source: 'demo.example', uids: [{ id: 'e-1', atype: 1 }] }],
    },
    source: {
      tid: `t-${id}`,
      schain: {
        complete: 1,
        ver: '1.0',
        nodes: [{ asi: 'exchange.example', sid: '4711', hp: 1, rid: id }],
      },
    },
    regs: { coppa: 0, gdpr: 0, us_privacy: '1YNN' },
    bcat: ['IAB24', 'IAB25', 'IAB26', 'IAB23'],
    badv: ['blocked-one.example', 'blocked-two.example'],
    ext: { exchange: { auction: '#9007199254740993' } },
  }
  // Some exchanges send integers above 2^53 as ids. Such an id is a text until the body is written.
  const write = () => JSON.stringify(request).replace(/"#(\d+)"/g, '$1')
  const bare = write().length
  // Content keywords bring it to the size that exchanges send.
  request.site.content.keywords = filler(2700 + Math.floor(random() * 300) - bare)
  return { id, publisher: publisher.id, body: write() }
}

const words = 'travel,city,weekend,railway,museum,garden,market,harbour,river,evening,'

const filler = (length: number) =>
  words.repeat(Math.ceil(Math.max(0, length) / words.length)).slice(0, Math.max(0, length))
