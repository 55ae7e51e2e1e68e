import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { SocketAddress } from 'node:net'
import type { Test } from 'tap'

const TYPES = { A: 1, CNAME: 5, AAAA: 28 } as const
type RecordType = keyof typeof TYPES

export interface DnsRecord {
  readonly type: RecordType
  /** An address, or the name that the host's own stands for. */
  readonly data: string
  /** Of the owner; the name asked for when absent. */
  readonly name?: string
}

/** Response codes, RFC 1035, section 4.1.1. */
export const RCODES = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const

export interface DnsAnswer {
  readonly code?: keyof typeof RCODES
  readonly records?: readonly DnsRecord[]
}

export interface DnsQuestion {
  readonly name: string
  readonly type: RecordType | null
}

/**
 * A name server on the loopback interface until the test ends. All records have a TTL of 0.
 *
 * @param answer null leaves the question without an answer
 * @param place absent: any port
 * @returns its address for a resolver, and the questions so far, as `name type`
 */
export async function serveDns(
  t: Pick<Test, 'teardown'>,
  answer: (question: DnsQuestion) => DnsAnswer | null,
  place = { port: 0, address: '127.0.0.1' },
): Promise<{ server: string; asked: string[] }> {
  const socket = createSocket('udp4')
  const asked: string[] = []
  socket.on('message', (message, from) => {
    const question = readQuestion(message)
    asked.push(`${question.name} ${question.type}`)
    const answered = answer(question)
    if (answered !== null) socket.send(reply(message, question, answered), from.port, from.address)
  })
  socket.bind(place)
  await once(socket, 'listening')
  t.teardown(() => socket.close())
  return { server: `${place.address}:${socket.address().port}`, asked }
}

const HEADER_BYTES = 12

function readQuestion(message: Buffer): DnsQuestion & { endAt: number } {
  const labels: string[] = []
  let at = HEADER_BYTES
  for (let length = message[at]!; length > 0; length = message[at]!) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const code = message.readUInt16BE(at + 1)
  const type = (Object.keys(TYPES) as RecordType[]).find((name) => TYPES[name] === code) ?? null
  return { name: labels.join('.').toLowerCase(), type, endAt: at + 5 }
}

function reply(message: Buffer, question: { name: string; endAt: number }, answer: DnsAnswer): Buffer {
  const { code = 'NOERROR', records = [] } = answer
  const header = Buffer.from(message.subarray(0, HEADER_BYTES))
  // A response, recursion available, one question, the answers, nothing else.
  header.writeUInt16BE(0x8180 | RCODES[code], 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(records.length, 6)
  header.writeUInt32BE(0, 8)
  const asked = message.subarray(HEADER_BYTES, question.endAt)
  return Buffer.concat([header, asked, ...records.map((record) => encodeRecord(record, question.name))])
}

function encodeRecord({ type, data, name }: DnsRecord, asked: string): Buffer {
  const content = type === 'CNAME' ? encodeName(data) : encodeAddress(type, data)
  const fixed = Buffer.alloc(10)
  fixed.writeUInt16BE(TYPES[type], 0)
  fixed.writeUInt16BE(1, 2)
  fixed.writeUInt32BE(0, 4)
  fixed.writeUInt16BE(content.length, 8)
  // A pointer to the question, unless another name is meant.
  const owner = name === undefined || name === asked ? Buffer.from([0xc0, HEADER_BYTES]) : encodeName(name)
  return Buffer.concat([owner, fixed, content])
}

function encodeName(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.from(`${String.fromCharCode(label.length)}${label}`))
  return Buffer.concat([...labels, Buffer.from([0])])
}

function encodeAddress(type: RecordType, address: string): Buffer {
  if (type === 'A') return Buffer.from(address.split('.').map(Number))
  const [head = '', tail] = new SocketAddress({ address, family: 'ipv6' }).address.split('::')
  const groups = (text = '') => text.split(':').flatMap((group) => (group === '' ? [] : groupsOf(group)))
  const [before, after] = [groups(head), groups(tail)]
  const zeros: number[] = new Array(8 - before.length - after.length).fill(0)
  return Buffer.from([...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]))
}

/** The last four bytes may be written as IPv4. */
function groupsOf(text: string): number[] {
  if (!text.includes('.')) return [Number.parseInt(text, 16)]
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
  return [(a << 8) | b, (c << 8) | d]
}
