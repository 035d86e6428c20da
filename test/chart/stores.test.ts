/** PostgreSQL by host, with user and password in a Secret of their own: the rendered configuration opens it. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { chart, manifests, needsHelm, root, template } from './helm.ts'
import { layOut } from './release.ts'

t.test(
  'the preflight Job migrates the database',
  {
    skip: needsHelm.skip || postgresAbsent,
  },
  async (t) => {
    const postgres = await startPostgres()
    t.teardown(() => postgres.close())
    const { hostname, port, username } = new URL(postgres.url)
    const values = join(chart, 'ci/autoscaled-values.yaml')
    const store = `store.database.host=${hostname},store.database.port=${port},store.database.name=postgres,store.database.params=`
    const all = manifests(template('--values', values, '--set', store).text)
    const config = layOut(t.testdir({}), all)
    interface Container {
      command: [shell: string, option: string, script: string]
      env: { name: string; value?: string; valueFrom?: { secretKeyRef: { key: string } } }[]
    }
    const job = all.find(({ kind }) => kind === 'Job')!.spec as {
      template: { spec: { containers: [Container] } }
    }
    const secret: Record<string, string> = { username, password: 'any' }
    const [{ command, env }] = job.template.spec.containers
    const given = env.flatMap(({ name, valueFrom }) =>
      valueFrom === undefined ? [] : [[name, secret[valueFrom.secretKeyRef.key]]],
    )
    const [shell, option, script] = command
    const run = (text: string) =>
      spawnSync(shell, [option, `bidweir() { "$NODE" main.ts "$@"; }\n${text}`], {
        cwd: root,
        encoding: 'utf8',
        env: { ...process.env, ...Object.fromEntries(given), NODE: process.execPath },
      })
    const good = run(script.replaceAll('/etc/bidweir/bidweir.yaml', config))
    t.equal(good.status, 0, good.stdout + good.stderr)
    t.match(good.stdout, /good, 1 supplier[\s\S]*the database is up to date/)
    writeFileSync(config, readFileSync(config, 'utf8').replace('location:', 'lokation:'))
    const refused = run(script.replaceAll('/etc/bidweir/bidweir.yaml', config))
    t.not(refused.status, 0)
    t.match(refused.stderr, /lokation/)
    t.notMatch(refused.stdout, /the database is up to date/)
  },
)
