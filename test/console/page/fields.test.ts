import t from 'tap'
import {
  BURST_MAX,
  KEY_NAME_MAX,
  REQUESTS_PER_MINUTE_MAX,
  readUsd,
  readWhole,
} from '../../../src/console/page/fields.ts'
import * as server from '../../../src/gateway/catalog/key.ts'

t.test('bounds are those of the server', async (t) => {
  t.equal(KEY_NAME_MAX, server.KEY_NAME_MAX)
  t.equal(REQUESTS_PER_MINUTE_MAX, server.REQUESTS_PER_MINUTE_MAX)
  t.equal(BURST_MAX, server.BURST_MAX)
})

t.test('amounts of money', async (t) => {
  for (const [text, amount] of [
    ['0.36', 0.36],
    [' $12 ', 12],
    ['', undefined],
    ['0', 0],
    ['1e3', null],
    ['-1', null],
    ['0.1234567', null],
    ['one', null],
  ] as const)
    t.equal(readUsd(text), amount, JSON.stringify(text))
})

t.test('whole numbers', async (t) => {
  for (const [text, whole] of [
    ['1', 1],
    [' 60 ', 60],
    ['100', 100],
    ['', undefined],
    ['  ', undefined],
    ['0', null],
    ['101', null],
    ['1.5', null],
    ['1e1', null],
    ['0x10', null],
    ['-1', null],
    ['many', null],
  ] as const)
    t.equal(readWhole(text, 100), whole, JSON.stringify(text))
  t.equal(readWhole('0', 100, 0), 0)
})
