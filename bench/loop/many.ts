/** What 3,000 suppliers cost the event loop: a reload that changes all of them, one that changes none, a scrape. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { configText, type Service, serve } from './service.ts'

const count = 3000
const rounds = 6

export interface Held {
  /** Milliseconds; the least and the middle of the longest holds of each round, for the machine holds it as well. */
  least: number
  median: number
}

export interface Many {
  changed: Held
  unchanged: Held
  scrape: Held
  /** Bytes of one scrape. */
  bytes: number
}

const suppliers = Object.fromEntries(
  Array.from({ length: count }, (_each, n) => [
    `supplier-${n}`,
    { endpoint: `http://127.0.0.1:9/${n}`, timeout: '200ms' },
  ]),
)

/** The longest hold since the last question. */
async function held({ child }: Service): Promise<number> {
  child.send('held')
  return (await once(child, 'message'))[0] as number
}

const scraped = async ({ admin }: Service) =>
  (await fetch(`http://127.0.0.1:${admin}/metrics`)).text()

const reloads = async (service: Service) =>
  Number(
    /^bidweir_config_reloads_total\{result="taken"\} (\d+)/m.exec(await scraped(service))?.[1] ?? 0,
  )

async function reload(service: Service): Promise<void> {
  const before = await reloads(service)
  await held(service)
  service.child.kill('SIGHUP')
  // Long enough that few scrapes come in between.
  do await new Promise((resolve) => setTimeout(resolve, 1000))
  while ((await reloads(service)) === before)
}

async function measured(service: Service, work: (round: number) => Promise<unknown>) {
  const worst: number[] = []
  for (let round = 0; round < rounds; round++) {
    await held(service)
    await work(round)
    worst.push(await held(service))
  }
  worst.sort((one, other) => one - other)
  return { least: worst[0]!, median: worst[rounds / 2]! }
}

export async function manySuppliers(): Promise<Many> {
  const service = await serve(suppliers, new URL('probe.ts', import.meta.url))
  const text = await scraped(service)
  const scrape = await measured(service, () => scraped(service))
  const unchanged = await measured(service, () => reload(service))
  const changed = await measured(service, async (round) => {
    writeFileSync(service.file, configText(suppliers, 0.2 + round / 100))
    await reload(service)
  })
  service.child.kill('SIGINT')
  await once(service.child, 'exit')
  return { changed, unchanged, scrape, bytes: text.length }
}
