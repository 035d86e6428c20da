/** Concurrent calls, to one node and to several, lose no update and break no rule. */
import { path, seat, serve } from '../../support/management.ts'
import { onBoth } from '../../support/store.ts'
import { until } from '../../support/until.ts'

onBoth(async (t, database) => {
  const api = await serve(t, database)
  const { call } = api
  await call('POST', path, {
    dsp_seats: [seat('s1')],
    datacenters: [{ location: 'us-east', client_qps: 0 }],
  })

  t.test('racing calls lose no update and never break the rule', async (t) => {
    await call('PUT', path, { datacenters: [{ location: 'us-east', client_qps: 0 }] })
    const names = Array.from({ length: 12 }, (_each, n) => `r${n}`)
    const answers = await Promise.all([
      ...names.map((name) => call('POST', path, { dsp_seats: [seat(name, 1)] })),
      ...names.map((_name, n) =>
        call('PUT', path, { datacenters: [{ location: 'us-east', client_qps: 100 + n }] }),
      ),
    ])
    const { body } = await call('GET', path)
    const made = answers.filter(({ status }) => status === 201).length
    t.equal(made, names.length)
    t.equal(body.dsp_seats.length, 1 + made)
    const sum = body.dsp_seats.reduce(
      (all: number, { qps }: { qps: { value: number }[] }) => all + qps[0]!.value,
      0,
    )
    t.ok(body.datacenters[0].client_qps <= sum)
  })

  t.test('three nodes race: no update is lost, the rule never breaks', async (t) => {
    const nodes = [api, await serve(t, database), await serve(t, database)]
    const center = (client_qps: number) => ({ datacenters: [{ location: 'race', client_qps }] })
    const small = (name: string) => ({ ...seat(name), qps: [{ location: 'race', value: 1 }] })
    await call('POST', path, { dsp_seats: [small('race')], ...center(0) })
    // each adds one to what it has read, and tries again where another was first
    const climb = async (node: (typeof nodes)[number], n: number): Promise<void> => {
      const made = await node.call('POST', path, { dsp_seats: [small(`race-${n}`)] })
      t.equal(made.status, 201)
      await until(async () => {
        const read = await node.call('GET', path)
        const datacenter = read.body.datacenters.find(
          ({ location }: { location: string }) => location === 'race',
        )
        const head = { 'if-match': read.headers.get('etag')! }
        const { status } = await node.call(
          'PUT',
          path,
          center(datacenter.client_qps + 1),
          'acme',
          head,
        )
        if (status !== 200) t.equal(status, 412)
        return status === 200
      })
    }
    const greedy = (node: (typeof nodes)[number], n: number) =>
      node.call('PUT', path, center(1000 + n))
    const steps = Array.from({ length: 15 }, (_each, n) => nodes[n % nodes.length]!)
    const [, refused] = await Promise.all([
      Promise.all(steps.map(climb)),
      Promise.all(steps.map(greedy)),
    ])
    t.ok(refused.every(({ status }) => status === 422))
    const { body } = await nodes[2]!.call('GET', path)
    t.match(
      body.datacenters.find(({ location }: { location: string }) => location === 'race'),
      { client_qps: steps.length },
    )
  })

  t.test('another node sees a change', async (t) => {
    const other = await serve(t, database)
    let active = true
    other.directory.onChange(({ suppliers }) => {
      active = suppliers.get('acme')?.datacenters.get('us-east')?.active ?? true
    })
    await call('PUT', path, { datacenters: [{ location: 'us-east', is_active: false }] })
    await until(() => !active)
    t.notOk(active)
  })
})
