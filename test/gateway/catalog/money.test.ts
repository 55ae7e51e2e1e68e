import t from 'tap'
import { formatUsd, parseUsd } from '../../../src/gateway/catalog/terms.ts'

t.test('amounts are read digit by digit', async (t) => {
  const rows: readonly [string, number][] = [
    ['0', 0],
    ['1', 1_000_000],
    ['12.5', 12_500_000],
    ['-12.5', -12_500_000],
    ['0.000001', 1],
    ['0.1', 100_000],
    // As doubles, 1.005 * 1e6 is 1004999.9999999999, and 8.41 * 1e6 is 8410000.000000001.
    ['1.005', 1_005_000],
    ['8.41', 8_410_000],
    ['999999999.123456', 999_999_999_123_456],
    ['1000000000', 1e15],
    ['007.10', 7_100_000],
  ]
  for (const [text, micros] of rows) t.equal(parseUsd(text), micros, text)
  t.ok(Object.is(parseUsd('-0.00'), 0), 'there is one zero')
})

t.test('what is no amount', async (t) => {
  const rows = ['', ' 1', '1 ', '+1', '1.', '.5', '1,5', '1e3', '0x10', 'NaN', 'Infinity', '--1', '1.0000000']
  for (const text of [...rows, '1.0000001', '1000000000.000001', '-1000000001', '99999999999'])
    t.equal(parseUsd(text), null, JSON.stringify(text))
})

t.test('amounts are written with cents at least, and read back the same', async (t) => {
  const rows: readonly [number, string][] = [
    [0, '0.00'],
    [1, '0.000001'],
    [-1, '-0.000001'],
    [10_000, '0.01'],
    [1_000_000, '1.00'],
    [1_500_000, '1.50'],
    [1_234_500, '1.2345'],
    [-999_999_999_123_456, '-999999999.123456'],
    [1_005_000, '1.005'],
  ]
  for (const [micros, text] of rows) {
    t.equal(formatUsd(micros), text)
    t.equal(parseUsd(text), micros)
  }
})
