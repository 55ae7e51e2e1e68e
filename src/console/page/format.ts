const LOCALE = 'en-US'
const NONE = '–'

/** 1,234,567; decimals only where they are asked for. */
export function number(value: number, decimals = 0): string {
  return value.toLocaleString(LOCALE, { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
}

/** 987 · 12.3k · 4.56M: three digits and a unit, for places where space is short. */
export function compact(value: number): string {
  const sign = value < 0 ? '-' : ''
  let rest = Math.abs(value)
  const units = ['', 'k', 'M', 'B', 'T']
  let unit = 0
  // A value that rounds to 1000 at three digits belongs to the next unit.
  while (rest >= 999.5 && unit < units.length - 1) {
    rest /= 1000
    unit++
  }
  return `${sign}${unit === 0 && Number.isInteger(rest) ? rest : threeDigits(rest)}${units[unit]}`
}

const COUNT_MAX = 99_999

/** 1,234 · 1.23M: how many, as short as a table or a chart needs it. */
export function formatCount(value: number): string {
  return value > COUNT_MAX ? compact(value) : number(Math.round(value))
}

/** 0.4 min · 1,234 min */
export function minutes(value: number): string {
  return `${value < 9.95 && value > 0 ? value.toFixed(1) : formatCount(value)} min`
}

function threeDigits(value: number): string {
  const decimals = value >= 99.95 || value === 0 ? 0 : value >= 9.995 ? 1 : 2
  return value.toFixed(decimals)
}

/** 512 B · 1.50 MiB: units of 1024. */
export function bytes(value: number): string {
  if (value < 1024) return `${Math.round(value)} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  let rest = value / 1024
  let unit = 0
  while (rest >= 1023.5 && unit < units.length - 1) {
    rest /= 1024
    unit++
  }
  return `${threeDigits(rest)} ${units[unit]}`
}

/** $1,234.50; amounts below a cent are shown to the micro-dollar. */
export function usd(value: number): string {
  const size = Math.abs(value)
  const decimals = size === 0 || size >= 0.01 ? 2 : 6
  return `${value < 0 ? '-' : ''}$${number(size, decimals)}`
}

/** 0.4 ms · 12 ms · 3.21 s · 4 min 5 s. */
export function milliseconds(value: number): string {
  if (value < 9.95) return `${Number(value.toFixed(1))} ms`
  if (value < 999.5) return `${Math.round(value)} ms`
  if (value < 99_950) return `${threeDigits(value / 1000)} s`
  return duration(value / 1000)
}

/** How long something took that is known to the millisecond. */
export function took(value: number): string {
  return value < 1 ? '< 1 ms' : milliseconds(value)
}

/** 45 s · 4 min 5 s · 3 h 20 min · 2 d 4 h: the two units that matter. */
export function duration(seconds: number): string {
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'min'],
    [whole % 60, 's'],
  ]
  const first = parts.findIndex(([count]) => count > 0)
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ')
}

/** 0.3 % · 12 %. */
export function percent(share: number): string {
  const value = share * 100
  return `${value === 0 || value >= 9.95 ? Math.round(value) : value < 0.095 ? '< 0.1' : value.toFixed(1)} %`
}

/** How long ago, or how long until: "just now", "4 min ago", "in 3 h". */
export function relative(atMs: number, nowMs: number): string {
  const seconds = (nowMs - atMs) / 1000
  if (Math.abs(seconds) < MOMENT_S) return 'just now'
  const [count, unit] = inOneUnit(Math.abs(seconds))
  return seconds > 0 ? `${Math.floor(count)} ${unit} ago` : `in ${Math.ceil(count)} ${unit}`
}

/** How long something has lasted, as after "for": "a moment", "4 min". */
export function lasting(sinceMs: number, nowMs: number): string {
  const seconds = (nowMs - sinceMs) / 1000
  if (seconds < MOMENT_S) return 'a moment'
  const [count, unit] = inOneUnit(seconds)
  return `${Math.floor(count)} ${unit}`
}

const MOMENT_S = 5

function inOneUnit(seconds: number): readonly [count: number, unit: string] {
  if (seconds < 60) return [seconds, 's']
  if (seconds < 3600) return [seconds / 60, 'min']
  return seconds < 86_400 ? [seconds / 3600, 'h'] : [seconds / 86_400, 'd']
}

/** 2026-11-20 14:03:07, in the reader's own time zone. */
export function moment(atMs: number): string {
  const at = new Date(atMs)
  if (Number.isNaN(at.getTime())) return NONE
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

/** UTC+2: the reader's own time zone at that moment. */
export function zone(atMs: number): string {
  const minutes = -new Date(atMs).getTimezoneOffset()
  if (Number.isNaN(minutes) || minutes === 0) return 'UTC'
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60]
  return `UTC${minutes < 0 ? '-' : '+'}${hours}${rest === 0 ? '' : `:${String(rest).padStart(2, '0')}`}`
}

/** 14:03:07 of today; of another day with its date. */
export function timeOfDay(atMs: number, nowMs: number): string {
  const [at, now] = [moment(atMs), moment(nowMs)]
  return at.slice(0, 10) === now.slice(0, 10) ? at.slice(11) : at
}

/** "1 route", "3 routes". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`
}

/** Writes a value, or a dash where there is none. */
export function orNone<Value>(value: Value | null | undefined, write: (value: Value) => string): string {
  return value === null || value === undefined ? NONE : write(value)
}

/** "None (1 attempt failed)": of a request that no entry answered. */
export function noneWords(failed: number): string {
  return `None (${number(failed)} attempt${failed === 1 ? '' : 's'} failed)`
}
