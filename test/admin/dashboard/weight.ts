/** A part of console.test.ts: the bytes of all that the page loads. */
import { readdir } from 'node:fs/promises'
import type { Test } from 'tap'
import { type ConsoleInBrowser, logIn, screenNames } from '../../support/console.ts'

/** Bytes of the whole page as it is sent, libraries included. */
const heaviest = 250_000
const folder = new URL('../../../admin/dashboard/page/', import.meta.url)

export async function weight(t: Test, { base, page }: ConsoleInBrowser) {
  t.test('all that each screen loads is less than 250 KB compressed', async (t) => {
    await logIn(page, base, 'op')
    for (const screen of screenNames()) {
      await page.goto(`${base}/#/${screen === 'supplier' ? 'supplier/acme' : screen}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
    }
    const loaded = await page.evaluate<{ name: string; encodedBodySize: number }[]>(
      `['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))
        .map(({ name, encodedBodySize }) => ({ name, encodedBodySize }))`,
    )
    const sizes = new Map(
      loaded
        .map(({ name, encodedBodySize }) => [new URL(name).pathname, encodedBodySize] as const)
        .filter(([path]) => !/^\/(api|auth)\//.test(path)),
    )
    const files = (await readdir(folder, { recursive: true })).filter((name) => /\.\w+$/.test(name))
    const paths = files.map((name) => (name === 'index.html' ? '/' : `/dashboard/${name}`))
    t.same(
      paths.filter((path) => !sizes.has(path)),
      [],
      'each file of the page is counted',
    )
    const empty = [...sizes].filter(([, size]) => size === 0)
    t.same(empty, [], 'the size of each is known')
    t.ok([...sizes.keys()].filter((path) => path.startsWith('/dashboard/lib/')).length > 6)
    const total = [...sizes.values()].reduce((sum, size) => sum + size, 0)
    t.comment(`${total} bytes in ${sizes.size} files`)
    t.ok(total < heaviest, `${total} bytes`)
  })
}
