/**
 * The libraries of the page, served from node_modules. A browser needs paths where the modules import packages by name,
 * and an import map would need an inline script, which the policy of the page forbids.
 */
import { readFile } from 'node:fs/promises'

const modules: Readonly<Record<string, string>> = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  htm: 'htm',
  '@preact/signals': '@preact/signals',
  '@preact/signals-core': '@preact/signals-core',
  uplot: 'uplot/dist/uPlot.esm.js',
}
const styles = 'uplot/dist/uPlot.min.css'

const pathOf = (name: string) => `/dashboard/lib/${name.replace(/^@/, '').replaceAll('/', '-')}.js`

const names = Object.keys(modules)
  .map((name) => name.replace(/[/@]/g, '\\$&'))
  .join('|')
const imported = new RegExp(`(\\bfrom\\s*|\\bimport\\s*\\(?\\s*)(["'])(${names})\\2`, 'g')

/** Replaces the names of packages in import statements by their paths. */
export const withPaths = (text: string): string =>
  text.replace(
    imported,
    (_, before: string, quote: string, name: string) => `${before}${quote}${pathOf(name)}${quote}`,
  )

const textOf = (specifier: string) => readFile(new URL(import.meta.resolve(specifier)), 'utf8')
const withoutMap = (text: string) => text.replace(/\/\/# sourceMappingURL=.*\s*$/, '')

/** The texts by path. */
export async function libraries(): Promise<[path: string, text: string][]> {
  const found = Object.entries(modules).map(
    async ([name, specifier]): Promise<[string, string]> => [
      pathOf(name),
      withPaths(withoutMap(await textOf(specifier))),
    ],
  )
  const css = async (): Promise<[string, string]> => [
    '/dashboard/lib/uplot.css',
    await textOf(styles),
  ]
  return Promise.all([...found, css()])
}
