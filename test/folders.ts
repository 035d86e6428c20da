/**
 * Checks that folders of a layer import each other in one direction only. `docs/architecture/README.md` has the allowed
 * order, in the table below "Order of the folders"; `npm run check` runs this.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const document = 'docs/architecture/README.md'
const heading = '## Order of the folders'

/** Step of each folder of each layer; a folder may import folders of earlier steps. */
function readOrder(): Map<string, Map<string, number>> {
  const text = readFileSync(document, 'utf8').split(heading)[1]?.split('\n## ')[0] ?? ''
  const rows = [...text.matchAll(/^\| `([a-z/]+)\/` \| (.+?) \|$/gm)]
  return new Map(
    rows.map(([, layer, steps]) => {
      const order = new Map<string, number>()
      for (const [step, names] of steps!.split('▸').entries())
        for (const [, name] of names.matchAll(/`([a-z-]+)`/g)) order.set(name!, step)
      return [layer!, order]
    }),
  )
}

/** The folder of a file within its layer; null: the file is in another layer, or in no folder of this one. */
function folderOf(file: string, layer: string): string | null {
  if (!file.startsWith(`${layer}/`)) return null
  const [folder, ...rest] = file.slice(layer.length + 1).split('/')
  return rest.length > 0 ? folder! : null
}

const faults: string[] = []
const order = readOrder()
if (order.size === 0) faults.push(`${document}: no table below "${heading}"`)
for (const [layer, steps] of order) {
  for (const file of globSync(`${layer}/**/*.{ts,js}`)) {
    const from = folderOf(file, layer)
    if (from === null) continue
    const step = steps.get(from)
    if (step === undefined) {
      faults.push(`${file}: ${document} does not list the folder ${layer}/${from}`)
      continue
    }
    for (const [, specifier] of readFileSync(file, 'utf8').matchAll(
      /(?:from|import\(?)\s*'(\.{1,2}\/[^']+)'/g,
    )) {
      const to = folderOf(join(dirname(file), specifier!), layer)
      if (to === null || to === from) continue
      if ((steps.get(to) ?? Number.POSITIVE_INFINITY) >= step)
        faults.push(`${file}: ${layer}/${from} may not import ${layer}/${to} (${specifier})`)
    }
  }
}

for (const fault of new Set(faults)) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
