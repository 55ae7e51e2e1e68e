// How long does a page of the request log take over a bucket in which the files of the last two hours are not merged
// yet? As many as ten nodes put: one a minute each. Asks for the newest requests, those that failed, one by its id and
// the one behind another; with a new process, and again. Says how often the bucket was read.
// Run: node bench/micro/usage-log.ts [files, default 1200] [records in each, default 200]

import { Cancellation } from '../../src/contracts/cancellation.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import { createS3Objects } from '../../src/gateway/storage/s3.ts'
import { createUsageLog, type LogQuestion } from '../../src/usage/log.ts'
import { idSpans, logIdOf } from '../../src/usage/log-id.ts'
import { DAY_MS, dateMs } from '../../src/usage/names.ts'
import { Dice } from '../../test/support/dice.ts'
import { engine, lakeOf, putRecords, randomRecord } from '../../test/support/usage-lake.ts'
import { startS3Server } from '../s3.ts'

const [FILES = 1_200, RECORDS = 200] = process.argv.slice(2).map(Number)
const NODES = 10
const MINUTE_MS = 60_000
const DATE = '2026-11-03'
const TO_MS = dateMs(DATE) + 12 * 60 * MINUTE_MS
const AT_A_TIME = 20

const dice = new Dice(3)
const server = await startS3Server()
const objects = createS3Objects(server.store)
const lake = lakeOf(objects)
const ids: string[] = []

async function put(number: number): Promise<void> {
  const fromMs = TO_MS - Math.ceil((number + 1) / NODES) * MINUTE_MS
  const name = `seg_${String(number).padStart(5, '0')}`
  const records = Array.from({ length: RECORDS }, (_, at) => {
    const record = randomRecord(dice, '', { fromMs, toMs: fromMs + MINUTE_MS })
    return { ...record, request_id: `req_${number}_${at}` }
  })
  await putRecords(lake, records, name)
  ids.push(records[0]!.request_id)
}

for (let number = 0; number < FILES; number += AT_A_TIME)
  await Promise.all(Array.from({ length: AT_A_TIME }, (_, at) => put(number + at)))

let reads = 0
const counting: Objects = {
  ...objects,
  get: (...part) => {
    reads += 1
    return objects.get(...part)
  },
}
const log = createUsageLog({ lake: lakeOf(counting), engine })

const ALL: LogQuestion = {
  ...{ fromMs: TO_MS - 7 * DAY_MS, toMs: TO_MS, isNewestFirst: true, tests: [], id: null, after: null },
  limit: 50,
}
const past = TO_MS - 90 * MINUTE_MS
const [span] = idSpans(ids[900] ?? '', ALL)
const QUESTIONS: readonly (readonly [string, LogQuestion])[] = [
  ['newest', ALL],
  ['failed', { ...ALL, tests: [{ column: 'outcome', oneOf: ['error'] }] }],
  ['of 90 minutes ago', { ...ALL, fromMs: past, toMs: past + 5 * MINUTE_MS }],
  ['an id of a caller', { ...ALL, ...span, id: logIdOf(ids[900] ?? '') }],
  [
    'the one behind',
    {
      ...ALL,
      isNewestFirst: false,
      limit: 1,
      after: { endedAtMs: past, recordId: null },
      toMs: past + DAY_MS,
    },
  ],
]

try {
  for (const round of ['first', 'again'])
    for (const [name, question] of QUESTIONS) {
      reads = 0
      const beganMs = performance.now()
      const { records } = await log.search(question, new Cancellation())
      const ms = Math.round(performance.now() - beganMs)
      process.stdout.write(`${round}, ${name}: ${ms} ms, ${reads} reads, ${records.length} records\n`)
    }
} finally {
  await engine.close()
  await objects.close()
  await server.stop()
}
