"""Google's Protocol Buffers for Python, for test/support/google-protobuf.ts: jobs as JSON on stdin, results on stdout.

`openrtb` is the schema that the project ships. `sent` is the same with more fields of a bid: those that OPD does not know are in
its messages.
"""
import importlib, json, os, random, sys, tempfile
from google.protobuf import json_format
from grpc_tools import protoc

text = open(os.path.join(sys.argv[1], 'openrtb.proto')).read()
more = '''    message Bid {
      repeated int32 attr = 11 [packed = true];
      repeated int32 apis = 12;
      optional fixed32 half = 900;
      optional fixed64 whole = 901;
      optional sint64 zigzag = 902;
      optional Bid inner = 903;
      repeated bytes blobs = 904;
'''
folder = tempfile.mkdtemp()
for name, schema in [('openrtb', text), ('sent', text.replace('    message Bid {\n', more).replace('openrtb.v2', 'sent.v2'))]:
    open(os.path.join(folder, name + '.proto'), 'w').write(schema)
    if protoc.main(['protoc', '-I' + folder, '--python_out=' + folder, name + '.proto']) != 0: sys.exit(1)
sys.path.insert(0, folder)
openrtb, sent = [importlib.import_module(name + '_pb2') for name in ('openrtb', 'sent')]

class Unfaithful(Exception): pass

def unrepeated(pairs):
    if len({key for key, _ in pairs}) < len(pairs): raise Unfaithful('a repeated key')
    return dict(pairs)

def not_json(name): raise Unfaithful(name)

# What of a JSON document the schema names. A test is 1 in JSON, and true in Protocol Buffers.
def known(value, descriptor):
    if not isinstance(value, dict): raise Unfaithful('no object')
    out = {}
    for key, member in value.items():
        field = descriptor.fields_by_name.get(key)
        if field is None or member is None: continue
        if key == 'test' and member in (0, 1): member = bool(member)
        if field.is_repeated and not isinstance(member, list): raise Unfaithful('no list')
        if field.message_type is not None:
            if field.is_repeated: member = [known(each, field.message_type) for each in member]
            else: member = known(member, field.message_type)
        if member != []: out[key] = member
    return out

def alike(value, other):
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(alike(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(alike, value, other))
    kinds = all(isinstance(value, kind) == isinstance(other, kind) for kind in (str, bool))
    return kinds and value == other

def encode(name, document):
    try:
        parsed = json.loads(document, object_pairs_hook=unrepeated, parse_constant=not_json)
        kind = getattr(openrtb, name)
        wanted = known(parsed, kind.DESCRIPTOR)
        message = json_format.ParseDict(wanted, kind())
        if not alike(json_format.MessageToDict(message, preserving_proto_field_name=True), wanted):
            raise Unfaithful('another type')
        return message.SerializeToString().hex()
    except (Unfaithful, ValueError, RecursionError, json_format.ParseError, UnicodeEncodeError):
        return None

MARKER = 'svc_opd=${SVC_OPD_CONTEXT}'
URLS = ('nurl', 'adm', 'burl', 'lurl')

def random_text(source):
    parts = ['https://é.example/?', MARKER, MARKER, '${SVC_OPD_MODE}', '${SVC_OPD_IN_BID_PRICE}',
             '${SVC_OPD_OUT_BID_PRICE}', '${AUCTION_PRICE}', 'x' * source.choice([1, 100, 100, 2000]), '&']
    return ''.join(source.choice(parts) for _ in range(source.randrange(6)))

def fill(bid, source, depth):
    bid.id = 'b%d' % source.randrange(9)
    bid.impid = source.choice(['1', '1', '1', '2'])
    if source.random() < .9: bid.price = source.choice([source.random() * 20, source.randrange(1, 999) / 100, 0])
    for name in URLS:
        if source.random() < .5: setattr(bid, name, random_text(source))
    if source.random() < .2: bid.dealid = 'd1'
    if source.random() < .3: bid.mtype = source.randrange(1, 5)
    if source.random() < .5: bid.attr.extend(source.randrange(400) for _ in range(source.randrange(5)))
    if source.random() < .5: bid.apis.extend(source.randrange(400) for _ in range(source.randrange(5)))
    if source.random() < .3: bid.half = source.getrandbits(32)
    if source.random() < .3: bid.whole = source.getrandbits(64)
    if source.random() < .3: bid.zigzag = -source.getrandbits(62)
    if source.random() < .3: bid.blobs.append(source.randbytes(source.randrange(40)))
    if depth < 2 and source.random() < .3: fill(bid.inner, source, depth + 1)

def random_responses(seed, count):
    source = random.Random(seed)
    out = []
    for _ in range(count):
        response = sent.BidResponse(id='auction')
        for _ in range(source.randrange(4)):
            seat = response.seatbid.add()
            if source.random() < .7: seat.seat = source.choice(['s1', 's2'])
            for _ in range(source.randrange(5)): fill(seat.bid.add(), source, 0)
        out.append(response.SerializeToString().hex())
    return out

# The same messages as other writers may spell them: varints that are longer than they need to be, fields in any order and more
# than once, of another wire type, packed and unpacked lists, and unknown fields of every kind.
LEVELS = {'response': {2: 'seat'}, 'seat': {1: 'bid'}, 'bid': {}}
WIDTHS = {1: 8, 5: 4}

def varint(value, size=0):
    out = bytearray()
    while value > 127 or len(out) + 1 < size:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])

def fields_of(message):
    at, out = 0, []
    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128: return value
    while at < len(message):
        tag = read()
        number, wire = tag >> 3, tag & 7
        if wire == 0: value = read()
        else:
            length = read() if wire == 2 else WIDTHS[wire]
            value = message[at:at + length]
            at += length
        out.append((number, wire, value))
    return out

def spelled(field, source):
    number, wire, value = field
    size = lambda most: source.randrange(most + 1) if source.random() < .3 else 0
    tag = varint(number << 3 | wire, size(5))
    if wire == 0: return tag + varint(value, size(10))
    if wire == 2: return tag + varint(len(value), size(5)) + value
    if wire == 3: return tag + value + varint(number << 3 | 4)
    return tag + value

def random_field(number, source):
    wire = source.choice([0, 1, 2, 5])
    if wire == 0: return number, wire, source.getrandbits(source.choice([7, 32, 64]))
    if wire == 2: return number, wire, random_text(source).encode()
    return number, wire, source.randbytes(WIDTHS[wire])

def listed(field, source):
    number, wire, value = field
    if number == 11 and wire == 2 and source.random() < .5:
        return [(number, 0, each) for each in packed_values(value)]
    return [(number, 2, varint(value))] if number == 12 and wire == 0 and source.random() < .5 else [field]

def packed_values(packed):
    return [value for _, _, value in fields_of(b''.join(b'\x08' + each for each in varints_of(packed)))]

def varints_of(packed):
    out, begin = [], 0
    for at, byte in enumerate(packed):
        if byte < 128:
            out.append(packed[begin:at + 1])
            begin = at + 1
    return out

def respelled(message, level, source, groups):
    inner = LEVELS[level]
    fields = []
    for number, wire, value in fields_of(message):
        if number in inner and wire == 2: value = respelled(value, inner[number], source, groups)
        fields.extend(listed((number, wire, value), source) if level == 'bid' else [(number, wire, value)])
    more = []
    if level == 'bid':
        again = sent.BidResponse.SeatBid.Bid()
        fill(again, source, 2)
        more = [field for field in fields_of(again.SerializeToString()) if source.random() < .15]
    more += [random_field(source.choice([1, 2, 3, 5, 6, 13, 21, 22, 23, 500, 90000]), source)
             for _ in range(source.randrange(3)) if level == 'bid' or source.random() < .3]
    if level != 'bid': more = [field for field in more if field[0] not in inner or field[1] != 2]
    if groups and source.random() < .1: more.append((source.randrange(1, 999), 3, b''))
    for field in more: fields.insert(source.randrange(len(fields) + 1), field)
    if source.random() < .3: source.shuffle(fields)
    return b''.join(spelled(field, source) for field in fields)

def respelled_responses(seed, count, groups):
    source = random.Random(seed)
    return [respelled(bytes.fromhex(each), 'response', source, groups).hex() for each in random_responses(seed, count)]

# What the rewriter makes of a response to a request with the imp 1 and no deal, if each eligible bid is sent at half its price.
def rewritten(response, values):
    for seat in response.seatbid:
        for bid in seat.bid:
            marked = any(MARKER in getattr(bid, name) for name in ('nurl', 'adm', 'burl'))
            if not marked or not (0 < bid.price < float('inf')) or bid.impid != '1': continue
            if bid.dealid != '' or bid.mtype == 3: continue
            bid.price = bid.price / 2
            for name in URLS:
                if not bid.HasField(name): continue
                for macro, value in values.items():
                    setattr(bid, name, getattr(bid, name).replace('${SVC_OPD_' + macro + '}', value))

# What is wrong with a rewritten response; None: nothing. before and after: bytes.
def fault(before, after, values):
    response = openrtb.BidResponse()
    try:
        response.ParseFromString(before)
        texts = [getattr(bid, name) for seat in response.seatbid for bid in seat.bid for name in URLS]
    except Exception:
        return None if before == after else 'a message that Google refuses was changed'
    if values is None: return None if before == after else 'a malformed message was changed'
    got = openrtb.BidResponse()
    got.ParseFromString(after)
    # Python cannot write a text that is not UTF-8.
    if any(isinstance(text, bytes) for text in texts): return None
    rewritten(response, values)
    if got.SerializeToString(deterministic=True) == response.SerializeToString(deterministic=True): return None
    return 'another message: %s' % before.hex()

jobs = json.load(sys.stdin)
results = []
for job in jobs:
    op, args = job[0], job[1:]
    if op == 'encode': results.append(encode(*args))
    elif op == 'random': results.append(random_responses(*args))
    elif op == 'respelled': results.append(respelled_responses(*args))
    elif op == 'fault': results.append(fault(bytes.fromhex(args[0]), bytes.fromhex(args[1]), args[2]))
print(json.dumps(results))
