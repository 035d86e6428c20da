import * as z from 'zod'
import { size } from '../shared/units.ts'

/** The decision log: NDJSON, one line for each decision and each win, rotated by size. */
export const decisionLogSchema = z.strictObject({
  path: z.string().min(1).describe('File of the decision log, NDJSON.'),
  maxBytes: size('256MiB').describe('Size at which the file is rotated, bytes.'),
  keep: z.int().min(1).max(1000).default(8).describe('Number of rotated files that are kept.'),
})

export type DecisionLogConfig = z.infer<typeof decisionLogSchema>
