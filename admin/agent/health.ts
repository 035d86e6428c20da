/** `grpc.health.v1.Health`: whether a service serves, asked once or watched. */
import { FieldTable, field, readMessage } from '../../opd/protobuf/wire.ts'
import { ProtobufWriter } from '../../opd/protobuf/writer.ts'
import { type GrpcCall, type GrpcMethod, grpcStatus } from '../grpc/server.ts'

/** HealthCheckResponse.ServingStatus. */
const states = { serving: 1, notServing: 2, unknown: 3 } as const

const requestFields = new FieldTable<{ service: string }>({
  1: field.text((request, value) => {
    request.service = value
  }),
})

const answerOf = (state: number) => new ProtobufWriter().int32(1, state).bytes()

export class HealthService {
  readonly methods: Readonly<Record<string, GrpcMethod>> = {
    '/grpc.health.v1.Health/Check': (call) => this.check(call),
    '/grpc.health.v1.Health/Watch': (call) => this.watch(call),
  }
  private readonly services: ReadonlySet<string>
  private readonly watching = new Set<GrpcCall>()
  private isServing = false

  /** `services`: those that are known, beside the empty name of the whole server. */
  constructor(services: readonly string[]) {
    this.services = new Set(['', ...services])
  }

  /** Tells the clients that watch of a change. */
  show(isServing: boolean): void {
    if (isServing === this.isServing) return
    this.isServing = isServing
    for (const call of this.watching) call.write(answerOf(this.state))
  }

  /** Ends the calls that watch. */
  end(): void {
    for (const call of this.watching) call.fail(grpcStatus.unavailable, 'the service ends')
    this.watching.clear()
  }

  private get state(): number {
    return this.isServing ? states.serving : states.notServing
  }

  private check(call: GrpcCall): void {
    const service = serviceOf(call)
    if (service === null) call.fail(grpcStatus.invalidArgument, 'not a HealthCheckRequest')
    else if (this.services.has(service)) call.reply(answerOf(this.state))
    else call.fail(grpcStatus.notFound, 'unknown service')
  }

  private watch(call: GrpcCall): void {
    const service = serviceOf(call)
    if (service === null) return call.fail(grpcStatus.invalidArgument, 'not a HealthCheckRequest')
    const isKnown = this.services.has(service)
    if (isKnown) this.watching.add(call)
    call.begin(answerOf(isKnown ? this.state : states.unknown), () => this.watching.delete(call))
  }
}

/** null: the bytes are no HealthCheckRequest. */
function serviceOf({ message }: GrpcCall): string | null {
  const request = { service: '' }
  return readMessage(message, requestFields, request) === null ? request.service : null
}
