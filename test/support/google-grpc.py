"""Calls the agent listener with Google's gRPC for Python: python google-grpc.py SCHEMAS PORT, the figures on stdout as JSON."""
import importlib, json, os, sys, tempfile, time
from concurrent import futures
import grpc
from grpc_tools import protoc

schemas, port = sys.argv[1:]
folder = tempfile.mkdtemp()
for name in ('openrtb', 'agent'):
    if protoc.main(['protoc', '-I' + schemas, '--python_out=' + folder, name + '.proto']) != 0: sys.exit(1)
sys.path.insert(0, folder)
agent = importlib.import_module('agent_pb2')

PUBLISHED = '/com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint/GetMutations'
PRINTED = '/com.iabtechlab.bidstream.mutation.v1.RTBExtensionPoint/GetMutations'

def request(name, price=2.4):
    call = agent.RTBRequest(id=name, lifecycle=agent.LIFECYCLE_DSP_BID_RESPONSE, tmax=60000)
    call.originator.type = agent.Originator.TYPE_DSP
    call.originator.id = 'acme'
    call.applicable_intents.append(agent.BID_SHADE)
    call.bid_request.id = 'auction-' + name
    imp = call.bid_request.imp.add(id='1', bidfloor=1)
    imp.banner.w, imp.banner.h = 300, 250
    call.bid_request.site.domain = 'news.example'
    call.bid_response.id = 'auction-' + name
    call.bid_response.seatbid.add(seat='s1').bid.add(id='bid-' + name, impid='1', price=price)
    return call

def method(channel, path):
    return channel.unary_unary(path, request_serializer=agent.RTBRequest.SerializeToString,
                               response_deserializer=agent.RTBResponse.FromString)

def outcome(call):
    try:
        call()
        return 'OK'
    except grpc.RpcError as error:
        return error.code().name

out = {}
with grpc.insecure_channel('127.0.0.1:' + port) as channel:
    for name, path in (('published', PUBLISHED), ('printed', PRINTED)):
        answer = method(channel, path)(request(name), timeout=60)
        [mutation] = answer.mutations
        out[name] = {'id': answer.id, 'intent': agent.Intent.Name(mutation.intent), 'op': agent.Operation.Name(mutation.op),
                     'path': mutation.path, 'price': mutation.adjust_bid.price, 'api': answer.metadata.api_version}
    call = method(channel, PUBLISHED)
    with futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: call(request(str(n)), timeout=60), range(400)))
    out['concurrent'] = [len({answer.id for answer in answers}), sum(len(answer.mutations) for answer in answers)]
    raw = channel.unary_unary(PUBLISHED)
    out['malformed'] = outcome(lambda: raw(b'\x0b', timeout=60))
    out['long'] = outcome(lambda: raw(bytes(5 * 1024 * 1024), timeout=60))
    out['unknown'] = outcome(lambda: channel.unary_unary('/x.Y/Z')(b'', timeout=60))
    # grpc.health.v1: HealthCheckResponse.status is field 1, SERVING is 1.
    out['check'] = channel.unary_unary('/grpc.health.v1.Health/Check')(b'', timeout=60).hex()
    watch = channel.unary_stream('/grpc.health.v1.Health/Watch')(b'', timeout=60)
    out['watch'] = next(watch).hex()
    watch.cancel()
print(json.dumps(out))
