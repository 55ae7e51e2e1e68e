import t from 'tap'
import { fuzzEdge } from './edge-fuzz.ts'

const LONG = process.env.LARKWAY_TEST_LONG === '1'
const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? (LONG ? 1_000_000 : 10_000))

t.setTimeout(LONG ? 3_600_000 : 120_000)
t.test(`${REQUESTS} mutated requests`, (t) => fuzzEdge(t, REQUESTS))
