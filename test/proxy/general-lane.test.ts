/** Both lanes keep the same promises: what the fast lane passes, the general one passes as well. */
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
  'looked-at',
  'memory',
  'request-bodies',
  'overload',
  'turns',
  'vectors',
]

for (const subject of subjects)
  spawn(
    process.execPath,
    [fileURLToPath(new URL(`./${subject}.test.ts`, import.meta.url))],
    { env: { ...process.env, TEST_LANE: 'general' } },
    `general lane: ${subject}`,
  )
