/** Tables of RESULTS.md that a document quotes. Each is between two comments, and `npm run docs` writes it: no figure is copied by hand. */
import { globSync, readFileSync } from 'node:fs'

const root = new URL('../../', import.meta.url)
const read = (file: string) => readFileSync(new URL(file, root), 'utf8')

const quoted = /<!-- quote: (\S+) "([^"]+)" -->\n.*?<!-- end of quote -->/gs

/** When and at which commit the figures were measured, and the first table below the heading. */
function quotation(file: string, heading: string): string {
  const text = read(file)
  const start = text.slice(0, text.indexOf('\n## '))
  const [date] = /\d{4}-\d\d-\d\d/.exec(start) ?? []
  const [, commit] = /commit (\w+)/.exec(start) ?? []
  const from = text.indexOf(`## ${heading}\n`)
  const table = from < 0 ? null : /(^\|.*\n)+/m.exec(text.slice(from))
  if (table === null || date === undefined || commit === undefined)
    throw new Error(`${file} has no table "${heading}" with a date and a commit`)
  return `${table[0]}\nMeasured on ${date}, commit ${commit}.`
}

/** The documents that quote, by path, with their quotations as RESULTS.md has them. */
export function quotingDocuments(): Record<string, string> {
  return Object.fromEntries(
    globSync(['*.md', 'docs/**/*.md', 'opd/**/*.md', 'bench/**/*.md'], { cwd: root })
      .map((file) => [file, read(file)] as const)
      .filter(([, text]) => text.includes('<!-- quote: '))
      .map(([file, text]) => [
        file,
        text.replaceAll(
          quoted,
          (_, source: string, heading: string) =>
            `<!-- quote: ${source} "${heading}" -->\n${quotation(source, heading)}\n<!-- end of quote -->`,
        ),
      ]),
  )
}
