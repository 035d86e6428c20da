/** The report of a benchmark, as Markdown or JSON. */

export type Cell = string | number
export interface Table {
  head: readonly string[]
  rows: readonly (readonly Cell[])[]
}
/** A plot beside RESULTS.md. */
export interface Image {
  file: string
  alt: string
  svg: string
}
export type Block = string | Table | Image

export interface Measured {
  /** The section's key. */
  key: string
  title: string
  blocks: readonly Block[]
}
interface Report {
  title: string
  facts: string
  about: string
  sections: readonly Measured[]
  /** What was not measured, and why. */
  missing: readonly string[]
  /** Why the figures must not be published. */
  refused: readonly string[]
}

/** A table of figures, each with its name. */
export const measured = (rows: Table['rows'], what = 'what'): Table => ({
  head: [what, 'measured'],
  rows,
})

const row = (cells: readonly Cell[]) => `| ${cells.join(' | ')} |`

function markdownOf(block: Block): string {
  if (typeof block === 'string') return block
  if ('svg' in block) return `![${block.alt}](${block.file})`
  const { head, rows } = block
  return [
    row(head),
    row(head.map((_, index) => (index === 0 ? '---' : '--:'))),
    ...rows.map(row),
  ].join('\n')
}

const list = (title: string, lines: readonly string[]) =>
  lines.length === 0 ? [] : [`## ${title}`, lines.map((line) => `- ${line}`).join('\n')]

export function markdown({ title, facts, about, sections, missing, refused }: Report): string {
  const parts = [
    `# ${title}`,
    facts,
    about,
    ...sections.flatMap((section) => [`## ${section.title}`, ...section.blocks.map(markdownOf)]),
    ...list('Not measured', missing),
    ...list('Not to be published', refused),
  ]
  return `${parts.join('\n\n')}\n`
}

/** Tables as lists of objects, one for each row. */
export function json({ sections, ...rest }: Report): string {
  const tables = (blocks: readonly Block[]) =>
    blocks
      .filter((block) => typeof block === 'object' && 'rows' in block)
      .map(({ head, rows }) =>
        rows.map((cells) =>
          Object.fromEntries(head.map((name, index) => [name, cells[index] ?? null])),
        ),
      )
  const byKey = Object.fromEntries(sections.map(({ key, blocks }) => [key, tables(blocks)]))
  return `${JSON.stringify({ ...rest, sections: byKey }, null, 2)}\n`
}
