/** A SQLite file that is removed, replaced or overwritten stores no win; the service does not start on a corrupt one. */
import {
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { openStore } from '../../../admin/store/index.ts'
import { openReader } from '../../../admin/store/reader.ts'
import { entry } from '../../support/ledger-entry.ts'
import { newFolder } from '../../support/process.ts'
import { silent, storeAt } from '../../support/store.ts'
import { timePasses, until } from '../../support/until.ts'

const refused = { name: 'StoreError', code: 'unavailable' }

async function opened(t: Test) {
  const file = `${newFolder()}/b.db`
  const errors: string[] = []
  const error = (fields: object) => void errors.push((fields as { err: string }).err)
  const store = await storeAt(
    t,
    { url: `sqlite:${file}` },
    { owns: true, log: { ...silent, error } },
  )
  t.equal(await store.ledger.record(entry('before')), 'recorded')
  t.same(await store.lost(), [])
  return { file, store, errors }
}

t.test('commands that open a new file at once wait for each other', async (t) => {
  for (let file = 0; file < 5; file++) {
    const url = `sqlite:${newFolder()}/b.db`
    const options = { now: Date.now, log: silent }
    const opened = await Promise.allSettled(
      Array.from({ length: 4 }, () => openStore(url, options)),
    )
    const faults: unknown[] = []
    for (const one of opened)
      if (one.status === 'fulfilled') await one.value.close()
      else faults.push(one.reason)
    t.same(faults, [])
  }
})

t.test('a file that another program writes to is waited for while it gets a log', async (t) => {
  const file = `${newFolder()}/b.db`
  const other = new DatabaseSync(file)
  other.exec('create table other (x); begin immediate')
  const opened = openStore(`sqlite:${file}`, { now: Date.now, log: silent })
  await timePasses(300, 'the file is opened meanwhile')
  other.exec('commit')
  other.close()
  const store = await opened
  t.same(await store.lost(), [])
  await store.close()
})

const moves: Record<string, (file: string) => void> = {
  'that is removed': (file) => unlinkSync(file),
  'that is moved away': (file) => renameSync(file, `${file}.old`),
  'that is replaced': (file) => {
    copyFileSync(file, `${file}.new`)
    renameSync(`${file}.new`, file)
  },
  'whose log is removed': (file) => unlinkSync(`${file}-wal`),
  'whose index is removed': (file) => unlinkSync(`${file}-shm`),
}
for (const [name, move] of Object.entries(moves))
  t.test(`a file ${name} takes no win until a restart`, async (t) => {
    const { file, store, errors } = await opened(t)
    const under = Promise.allSettled(
      Array.from({ length: 2000 }, (_each, n) => store.ledger.record(entry(`under ${n}`))),
    )
    move(file)
    await t.rejects(store.ledger.record(entry('after')), refused)
    const outcomes = await under
    t.equal(outcomes.at(-1)!.status, 'rejected', 'a batch that was under way as well')
    t.same(await store.lost(), ['store'])
    t.match(errors[0], file, 'the log names the file')
    const transaction = store.db.transaction().execute((trx) => store.bump(trx))
    await t.rejects(transaction, refused)
    await t.rejects(store.ledger.seenBid('bid-before', 'win', 0), refused)
    await store.close()
    const again = await storeAt(t, { url: `sqlite:${file}` })
    t.match(await again.ledger.record(entry('later')), /recorded|duplicate/)
  })

t.test(
  'a file that another program has overwritten takes no win until it is complete again',
  async (t) => {
    const { file, store } = await opened(t)
    await sql`pragma wal_checkpoint(truncate)`.execute(store.db)
    const content = readFileSync(file)
    const torn = Buffer.from(content)
    torn.fill(0x5a, 4096)
    writeFileSync(file, torn)
    await t.rejects(store.ledger.record(entry('after')), refused)
    t.same(await store.lost(), ['store'])
    writeFileSync(file, content)
    await until(async () => (await store.lost()).length === 0)
    t.equal(await store.ledger.record(entry('after')), 'recorded')
    t.equal(await store.ledger.record(entry('before')), 'duplicate')
  },
)

t.test('a file whose log is cut takes no win', async (t) => {
  const { file, store } = await opened(t)
  truncateSync(`${file}-wal`)
  await t.rejects(store.ledger.record(entry('after')), refused)
  t.same(await store.lost(), ['store'])
})

t.test('a transaction during which the file is written over leaves nothing behind', async (t) => {
  const { file, store } = await opened(t)
  const transaction = store.db.transaction().execute(async (trx) => {
    await store.bump(trx)
    writeFileSync(file, readFileSync(file))
    await store.bump(trx)
  })
  await t.rejects(transaction, refused)
  await until(async () => (await store.lost()).length === 0)
  const { n } = await store.db.selectFrom('revision').select('n').executeTakeFirstOrThrow()
  t.equal(n, 1)
})

/** The path of a file whose last page is damaged, a leaf of the ledger: every statement of a start succeeds. */
async function withoutLastPage(t: Test): Promise<string> {
  const { file, store } = await opened(t)
  for (let n = 0; n < 50; n++) await store.ledger.record(entry(`row ${n}`))
  await store.close()
  await (await openStore(`sqlite:${file}`, { now: Date.now, log: silent, owns: true })).close()
  const torn = readFileSync(file)
  torn.fill(0x5a, torn.length - 4096)
  writeFileSync(file, torn)
  return file
}

t.test(
  'a file is lost when a statement finds a damaged page, though it can be written',
  async (t) => {
    const file = await withoutLastPage(t)
    const store = await storeAt(t, { url: `sqlite:${file}` }, { owns: false })
    t.same(await store.lost(), [])
    await t.rejects(store.db.selectFrom('ledger').selectAll().execute(), refused)
    t.same(await store.lost(), ['store'])
  },
)

t.test('a corrupt file is refused by its name', async (t) => {
  const file = await withoutLastPage(t)
  // closed by the test if it is not refused
  const open = () => storeAt(t, { url: `sqlite:${file}` }, { owns: true })
  await t.rejects(open(), { message: new RegExp(`^the database file ${file} is corrupt: .`) })
  writeFileSync(file, 'no database at all, whatever its name says')
  await t.rejects(open(), { message: new RegExp(`^the database file ${file} does not open: .`) })
})

t.test('a file that cannot be opened is named; a reader makes none', async (t) => {
  const folder = newFolder()
  writeFileSync(`${folder}/plain`, '')
  const inside = `${folder}/plain/b.db`
  await t.rejects(openStore(`sqlite:${inside}`, { now: Date.now, log: silent }), {
    message: new RegExp(`^the database file ${inside} does not open: .`),
  })
  const absent = `${folder}/absent.db`
  const { db } = await openReader(`sqlite:${absent}`)
  await t.rejects(db.selectFrom('ledger').selectAll().execute(), refused)
  await db.destroy()
  t.equal(existsSync(absent), false)
})

t.test('commands and reports go on while the service writes to its file', async (t) => {
  const { file, store } = await opened(t)
  const url = `sqlite:${file}`
  const { db } = await openReader(url)
  t.teardown(() => db.destroy())
  const command = await storeAt(t, { url })
  const rows = () => db.selectFrom('ledger').select('decision').execute()
  t.equal((await rows()).length, 1)
  await store.ledger.record(entry('later'))
  await sql`pragma wal_checkpoint(truncate)`.execute(store.db)
  t.equal((await rows()).length, 2)
  t.equal(await command.ledger.record(entry('beside')), 'recorded')
  t.equal(await store.ledger.record(entry('beside')), 'duplicate')
  t.same(await store.lost(), [])
})

t.test('the log shrinks to 16 MiB after it has been larger', async (t) => {
  const { file, store } = await opened(t)
  await sql`create table filler as select zeroblob(40000000) as zeros`.execute(store.db)
  t.ok(statSync(`${file}-wal`).size > 2e7)
  for (let n = 0; n < 3; n++) await store.ledger.record(entry(`row ${n}`))
  t.ok(statSync(`${file}-wal`).size <= 16 * 2 ** 20)
})

t.test('callers do not queue behind a lock of another program without end', async (t) => {
  const { file, store } = await opened(t)
  const other = new DatabaseSync(file)
  other.exec('begin immediate')
  const write = () => store.db.updateTable('revision').set({ n: 7 }).execute()
  const answers = await Promise.allSettled([write(), write(), write(), write()])
  t.match(answers[0], { reason: { name: 'StoreError', code: 'unavailable' } })
  for (const answer of answers.slice(2))
    t.match(answer, { reason: { name: 'StoreError', code: 'overloaded' } })
  other.close()
  await until(async () => (await store.lost()).length === 0)
  await write()
})

t.test('a fault of a statement or of a row is not a lost store', async (t) => {
  const { store } = await opened(t)
  await t.rejects(sql`selekt 1`.execute(store.db), { code: 'SQLITE_1' })
  await t.rejects(sql`insert into revision values (1, 1)`.execute(store.db), { code: 'SQLITE_19' })
  t.same(await store.lost(), [])
})
