/** Writes docs/reference from the code, and what documents quote of RESULTS.md: `npm run docs`. A test fails when the files are out of date. */
import { writeFileSync } from 'node:fs'
import { eventJsonSchema } from '../service/events/event.ts'
import { chartFiles } from './generate/chart.ts'
import { dockerfile } from './generate/dockerfile.ts'
import { problemsPage } from './generate/problems.ts'
import { quotingDocuments } from './generate/quotes.ts'
import { reasons } from './generate/reasons.ts'
import { api, inspectService, metrics } from './generate/service.ts'
import { commands, configuration } from './generate/usage.ts'

/** The text of each file of docs/reference. */
export async function reference(): Promise<Record<string, string>> {
  const inspected = await inspectService()
  return {
    'configuration.md': configuration(),
    'cli.md': commands(),
    'api.md': api(inspected.api),
    'metrics.md': metrics(inspected.metrics),
    'reasons.md': reasons(),
    'problems.md': problemsPage(),
    'events.schema.json': `${JSON.stringify(eventJsonSchema(), null, 2)}\n`,
  }
}

if (import.meta.main) {
  for (const [name, text] of Object.entries(await reference()))
    writeFileSync(new URL(`reference/${name}`, import.meta.url), text)
  for (const [name, text] of Object.entries(chartFiles()))
    writeFileSync(new URL(`../charts/bidweir/${name}`, import.meta.url), text)
  writeFileSync(new URL('../Dockerfile', import.meta.url), dockerfile())
  for (const [name, text] of Object.entries(quotingDocuments()))
    writeFileSync(new URL(`../${name}`, import.meta.url), text)
}
