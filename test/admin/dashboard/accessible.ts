/** A part of console.test.ts: axe finds no violation on any screen, in light and dark, and no width scrolls sideways. */
import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import {
  type ConsoleInBrowser,
  fillLogIn,
  nameOfScreen,
  press,
  screenNames,
  show,
  visit,
} from '../../support/console.ts'
import { until } from '../../support/until.ts'

interface Violation {
  id: string
  nodes: { html: string }[]
}

export async function accessibility(t: Test, { base, page }: ConsoleInBrowser) {
  const screens = [
    ['suppliers', 'Suppliers'],
    ['supplier/acme', 'Acme'],
    ['supplier/down', 'Down <b>'],
    ['minutes', 'Last two days'],
    ['alerts', 'Alerts'],
    ['reports?by=publisher&and=day', 'Reports'],
    ['reports?by=size', 'Reports'],
    ['go-live/acme', 'Go live'],
    ['holds', 'Holds'],
    ['explain?bid=none', 'Explain a bid'],
    ['models', 'Models'],
    ['audit', 'Audit'],
    ['configuration', 'Configuration'],
    ['users', 'Users'],
    ['nodes', 'Nodes'],
  ] as const
  const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
  const check = async (name: string) => {
    if (await page.evaluate('window.axe === undefined')) await page.evaluate(axe)
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme })
      const options = {
        resultTypes: ['violations'],
        // the scheme changes colours and nothing else
        ...(colorScheme === 'dark' ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {}),
      }
      const found = await page.evaluate<{ violations: Violation[] }>(
        `axe.run(${JSON.stringify(options)})`,
      )
      const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)
      t.same(violations, [], `${name}, ${colorScheme}`)
    }
  }
  await visit(page, base)
  await page.getByLabel('User').waitFor()
  await check('log-in')
  await fillLogIn(page, 'op')
  const checked = new Set(screens.map(([screen]) => nameOfScreen(screen)))
  t.same(new Set(screenNames()), checked, 'each screen of the console is checked')
  for (const [screen, heading] of screens) {
    await show(page, base, screen, heading)
    // forms that are folded are checked, too
    await page.evaluate(
      "for (const each of document.querySelectorAll('details:has(form)')) each.open = true",
    )
    await check(screen)
    for (const width of [390, 1920, 1440]) {
      await page.setViewportSize({ width, height: 900 })
      const fits = () =>
        page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth')
      // A chart takes its new width in a frame of its own.
      await until(fits, { what: `${screen} does not scroll sideways at ${width}` })
      if (width > 390) continue
      await check(`${screen} at ${width}`)
      const cut = await page.evaluate<string[]>(
        `[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth).map(({ ariaLabel }) => ariaLabel)`,
      )
      t.same(cut, [], `${screen}: no table is cut at ${width}`)
    }
  }
  await show(page, base, 'holds', 'Holds')
  await press(page, 'Hold Acme')
  await page.getByRole('dialog').waitFor()
  await check('a question')
  await press(page, 'Cancel')
}
