/** The tests of the fast lane, on the general lane: both must pass them. */
import { fileURLToPath } from 'node:url'
import { spawn } from 'tap'

const subjects = [
  'admission',
  'attacks',
  'bid',
  'deadlines',
  'encodings',
  'endpoints',
  'faults',
  'life',
  'eligible-responses',
  'memory',
  'request-bodies',
  'overload',
  'pipelined-connections',
  'vectors',
]

for (const subject of subjects)
  spawn(
    process.execPath,
    [fileURLToPath(new URL(`./${subject}.test.ts`, import.meta.url))],
    { env: { ...process.env, TEST_LANE: 'general' } },
    `general lane: ${subject}`,
  )
