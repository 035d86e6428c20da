/** A part of console.test.ts: every screen of the console in a browser: axe finds no violation in light and dark, and no width scrolls sideways. */
import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import { type ConsoleInBrowser, logIn, openPage, press, show } from '../../support/console.ts'
import { until } from '../../support/until.ts'

interface Violation {
  id: string
  nodes: { html: string }[]
}

export async function accessibility(t: Test, { base, browser }: ConsoleInBrowser) {
  const screens = [
    ['suppliers', 'Suppliers'],
    ['supplier/acme', 'Acme'],
    ['supplier/down', 'Down <b>'],
    ['holds', 'Holds'],
    ['explain?bid=none', 'Explain a bid'],
    ['models', 'Models'],
    ['audit', 'Audit'],
    ['configuration', 'Configuration'],
    ['users', 'Users'],
    ['nodes', 'Nodes'],
  ] as const
  const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
  for (const colorScheme of ['light', 'dark'] as const)
    t.test(`accessible, and within its width, ${colorScheme}`, async (t) => {
      const { page } = await openPage(browser, { colorScheme })
      const check = async (name: string) => {
        await page.evaluate(axe)
        const found = (await page.evaluate('axe.run()')) as { violations: Violation[] }
        const told = found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)
        t.same(told, [], name)
      }
      await page.goto(base)
      await page.getByLabel('User').waitFor()
      await check('log-in')
      await logIn(page, base, 'op')
      for (const [screen, heading] of screens) {
        await page.setViewportSize({ width: 1440, height: 900 })
        await show(page, base, screen, heading)
        // forms that are folded are checked, too
        await page.evaluate(
          "for (const each of document.querySelectorAll('details:has(form)')) each.open = true",
        )
        await check(screen)
        // the colours do not change widths
        for (const width of colorScheme === 'light' ? [390, 1920] : []) {
          await page.setViewportSize({ width, height: 844 })
          const fits = () =>
            page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth')
          // A chart takes its new width in a frame of its own.
          await until(fits, { what: `${screen} does not scroll sideways at ${width}` })
        }
      }
      await page.setViewportSize({ width: 1440, height: 900 })
      await show(page, base, 'holds', 'Holds')
      await press(page, 'Hold Acme')
      await page.getByRole('dialog').waitFor()
      await check('a question')
      await page.close()
    })
}
