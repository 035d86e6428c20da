/** A real ClickHouse within a Python process (chDB): `CHDB_PYTHON="$(.ci/chdb)"`, or the cache that it fills. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const python = process.env['CHDB_PYTHON'] ?? join(cache, 'bidweir', 'chdb-venv', 'bin', 'python')

export const clickhouseAbsent = existsSync(python) ? false : 'chdb not found'

/** One session: the statements in order, each with its parameters. The last answer's rows. */
const program = `
import json, sys
from chdb import session
db = session.Session()
answers = []
for text, params in json.load(sys.stdin):
    for name, value in params.items():
        db.query(f"SET param_{name} = '{value}'")
    answers.append(str(db.query(text, 'JSONEachRow')))
print(json.dumps(answers))
`

/** Runs statements in a database of its own; the rows of each. */
export function queryClickhouse(
  statements: readonly (readonly [text: string, params?: Record<string, string | number>])[],
): Record<string, unknown>[][] {
  const output = execFileSync(python, ['-c', program], {
    input: JSON.stringify(statements.map(([text, params = {}]) => [text, params])),
    maxBuffer: 64 * 1024 * 1024,
  })
  const answers = JSON.parse(String(output)) as string[]
  return answers.map((text) =>
    text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>),
  )
}

/** The statements of a file. */
export const statementsOf = (text: string): string[] =>
  text
    .replace(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
