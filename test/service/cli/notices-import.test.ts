/** What `bidweir notices import` makes of files and lines that are not as they should be. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { runHere } from '../../support/cli.ts'
import { newFolder } from '../../support/process.ts'

const folder = newFolder()
writeFileSync(
  join(folder, 'bidweir.yaml'),
  'stateDir: data\nsuppliers: [{id: acme, endpoints: ["http://127.0.0.1:9/"], opd: {enabled: true}}]\n',
)
const file = join(folder, 'wins')
const importing = (text: string | Buffer, ...more: string[]) => {
  writeFileSync(file, text)
  return runHere(['notices', 'import', file, ...more, '--config', join(folder, 'bidweir.yaml')])
}
const rows = () => {
  const db = new DatabaseSync(join(folder, 'data/bidweir.db'), { readOnly: true })
  const found = db.prepare('select bid_id, cleared from ledger order by rowid').all()
  db.close()
  return found.map((row) => ({ ...row }))
}

t.test('a file that has no notices is a fault of its first line', async (t) => {
  for (const [text, fault] of [
    ['hello', 'is neither JSON nor a header of CSV with bid_id'],
    [Buffer.alloc(100), 'is neither JSON nor a header of CSV'],
    ['bid_id,price\rb,1\r', 'is neither JSON nor a header of CSV'],
    ['bid_id;price\nb;1\n', 'is neither JSON nor a header of CSV with bid_id'],
    ['bid_id,price,price\nb,1,2\n', 'has the column price twice'],
  ] as const) {
    const { code, stderr } = await importing(text)
    t.equal(code, 1, fault)
    t.ok(stderr.startsWith(`${file}:1: ${fault}\n`), stderr)
  }
  t.match(await importing('id,price\n', '--column', 'bid_id=id'), { code: 0 })
})

t.test('an option --column that names no value is wrong usage', async (t) => {
  for (const column of ['bidid=id', 'bid_id=', 'bid_id']) {
    const { code, stderr } = await importing('id,price\n', '--column', column)
    t.equal(code, 64)
    t.match(stderr, `bidweir: --column ${column}: NAME=COLUMN, NAME one of bid_id, `)
  }
})

t.test('a line whose price cannot be read does not keep the others out', async (t) => {
  const { code, stdout, stderr } = await importing(
    '{"bid_id":"a","price":"YWJj"}\n{"bid_id":"b","price":"1.5"}\n',
  )
  t.equal(code, 1)
  t.equal(stdout, '1 unattributed, 1 refused\n')
  t.match(stderr, /^\S+wins:1: price is not a plain decimal, .* give ssp\n$/)
  t.match(rows(), [{ bid_id: 'b', cleared: '1.5' }])
})

t.test('numbers of JSON are read digit by digit', async (t) => {
  const { code, stderr } = await importing(
    '{"bid_id":12345678901234567890,"price":0.12345678901234567890}\n{"bid_id":7,"price":2.5E-1}\n',
  )
  t.equal(code, 0, stderr)
  t.match(rows().slice(1), [
    { bid_id: '12345678901234567890', cleared: '0.12345678901234567890' },
    { bid_id: '7', cleared: '0.25' },
  ])
})
