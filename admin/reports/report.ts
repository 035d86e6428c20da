/** One report, from the question to its bytes. */

import { render } from './render.ts'
import { type ReportRow, type ReportRules, readRows, type Scope } from './rows.ts'
import type { Source } from './scope.ts'

export interface ReportRequest {
  scope: Scope
  columns: readonly (keyof ReportRow)[]
  format: 'json' | 'csv'
  rules: ReportRules
}

/** Runs a report. The result has a buffer of its own, so that it can be transferred to another thread. */
export async function report(source: Source, ask: ReportRequest): Promise<Uint8Array<ArrayBuffer>> {
  const rows = await readRows(source, ask.scope, ask.rules)
  return new TextEncoder().encode(render(rows, ask.columns, ask.format))
}
