/** Where state is kept: relative paths of a file are relative to the file, without a file to the working directory. */
import { existsSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { check } from '../../../service/config/check.ts'
import { loadConfig } from '../../../service/config/load.ts'
import { defaultConfig } from '../../../service/default-config.ts'
import { modelsDirOf } from '../../../service/models.ts'
import { runHere } from '../../support/cli.ts'
import { file, folder } from '../../support/config.ts'
import { command, newFolder } from '../../support/process.ts'

const pathOf = (...path: string[]) => join(folder, ...path)

for (const [text, dir, database] of [
  ['location: here', pathOf('data'), `sqlite:${pathOf('data/bidweir.db')}`],
  ['stateDir: kept', pathOf('kept'), `sqlite:${pathOf('kept/bidweir.db')}`],
  ['stateDir: /kept', '/kept', 'sqlite:/kept/bidweir.db'],
  ['store: {database: "sqlite:db/b.db"}', pathOf('db'), `sqlite:${pathOf('db/b.db')}`],
  ['store: {database: "sqlite:/db/b.db"}', '/db', 'sqlite:/db/b.db'],
  ['stateDir: kept\nstore: {database: "sqlite:b.db"}', pathOf('kept'), `sqlite:${pathOf('b.db')}`],
  ['store: {database: "sqlite::memory:"}', pathOf('data'), 'sqlite::memory:'],
] as const)
  t.test(`${text.replace('\n', ', ')}: ${dir}`, (t) => {
    const config = loadConfig(file(`${text}\n`)).config!
    t.equal(config.stateDir, dir)
    t.equal(modelsDirOf(config), join(dir, 'models'))
    t.equal(config.store.database, database)
    t.end()
  })

t.test(
  'with PostgreSQL, too, the state folder can be said; so can that of the decision log',
  (t) => {
    const key = 'A'.repeat(43)
    const store = `store: {database: "postgres://p/b"}\nopd: {keys: [{id: 1, secret: ${key}}], decisionLog: {path: logs/d.ndjson}}\n`
    const config = loadConfig(file(`stateDir: kept\n${store}`)).config!
    t.equal(config.stateDir, pathOf('kept'))
    t.equal(config.store.database, 'postgres://p/b')
    t.equal(config.opd.decisionLog?.path, pathOf('logs/d.ndjson'))
    t.equal(loadConfig(file(store)).config!.stateDir, pathOf('data'))
    t.end()
  },
)

t.test('the embedded default has data/ of the working directory', (t) => {
  const config = check(defaultConfig('http://127.0.0.1:1/'), '.').config!
  t.equal(config.stateDir, resolve('data'))
  t.equal(config.store.database, `sqlite:${resolve('data/bidweir.db')}`)
  t.end()
})

t.test('commands find the state of a file from any folder', async (t) => {
  const home = newFolder()
  writeFileSync(join(home, 'bidweir.yaml'), 'stateDir: state\n')
  const cwd = newFolder()
  const config = ['--config', join(home, 'bidweir.yaml')]
  const added = await command(['user', 'add', 'ann', ...config], {
    cwd,
    stdin: 'a long password\n',
  })
  t.equal(added.code, 0, added.stderr)
  t.ok(existsSync(join(home, 'state/bidweir.db')))
  const rollback = await runHere(['model', 'rollback', ...config])
  t.match(rollback.stderr, `no models in ${join(home, 'state/models')}`)
  t.notOk(existsSync(join(cwd, 'data')))
})
