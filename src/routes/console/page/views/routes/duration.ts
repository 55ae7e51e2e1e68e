const UNITS: Readonly<Record<string, number>> = { '': 1, s: 1, sec: 1, m: 60, min: 60, h: 3600 }

/** Seconds of `90`, `1:30`, `1:02:03`, `5 min` or `1.5 h`; null when it is nothing such, or no time at all. */
export function readDuration(text: string): number | null {
  const clock = /^(?:(\d{1,3}):)?(\d{1,3}):([0-5]\d)$/.exec(text.trim())
  if (clock) return overZero(Number(clock[1] ?? 0) * 3600 + Number(clock[2]) * 60 + Number(clock[3]))
  const measured = /^(\d{1,8}(?:\.\d{1,3})?)\s*([a-z]*)$/i.exec(text.trim())
  const unit = UNITS[measured?.[2]?.toLowerCase() ?? 'none']
  return measured === null || unit === undefined ? null : overZero(Number(measured[1]) * unit)
}

function overZero(seconds: number): number | null {
  return seconds > 0 && seconds <= 31_536_000 ? seconds : null
}
