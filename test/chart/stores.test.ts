/** PostgreSQL by host, with user and password in a Secret of their own: the rendered configuration opens it. */
import { spawnSync } from 'node:child_process'
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
      args: string[]
      env: { name: string; value?: string; valueFrom?: { secretKeyRef: { key: string } } }[]
    }
    const job = all.find(({ kind }) => kind === 'Job')!.spec as {
      template: { spec: { initContainers: Container[]; containers: Container[] } }
    }
    const secret: Record<string, string> = { username, password: 'any' }
    const { initContainers, containers } = job.template.spec
    const steps = [...initContainers, ...containers].map(({ args, env }) => {
      const given = env.flatMap(({ name, valueFrom }) =>
        valueFrom === undefined ? [] : [[name, secret[valueFrom.secretKeyRef.key]]],
      )
      const command = args.map((each) => (each.endsWith('.yaml') ? config : each))
      const options = { cwd: root, encoding: 'utf8' as const }
      const environment = { ...process.env, ...Object.fromEntries(given) }
      const { status, stdout, stderr } = spawnSync(process.execPath, ['main.ts', ...command], {
        ...options,
        env: environment,
      })
      t.equal(status, 0, stdout + stderr)
      return stdout
    })
    t.equal(steps.length, 2)
    t.match(steps[1], /the database is up to date/)
  },
)
