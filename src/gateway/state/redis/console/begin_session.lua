-- Begins a session of the console, unless there is one with its id.
--
-- KEYS session
-- ARGV key_sha256 person holder csrf_token idle_ms ttl_ms address browser
-- Reply until_ms | false: when the session ends at the latest; there was one
--
-- `key_sha256`, `person`, `idle_ms`, `address` and `browser` are empty where there is none. The key of the session goes by itself at its end,
-- or when it was not touched for `idle_ms`.

local session = KEYS[1]
if redis.call('EXISTS', session) == 1 then return false end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local until_ms = now_ms + ARGV[6]
local fields = {
  'key_sha256', ARGV[1], 'person', ARGV[2], 'holder', ARGV[3], 'csrf_token', ARGV[4], 'idle_ms', ARGV[5],
  'address', ARGV[7], 'browser', ARGV[8],
}
for place = 1, #fields, 2 do
  -- What is absent to an earlier version has to be absent, not empty.
  if fields[place + 1] ~= '' then redis.call('HSET', session, fields[place], fields[place + 1]) end
end
local now, ends = string.format('%.0f', now_ms), string.format('%.0f', until_ms)
redis.call('HSET', session, 'began_at_ms', now, 'seen_at_ms', now, 'expires_at_ms', ends)
local idle_ms = tonumber(ARGV[5])
if idle_ms and now_ms + idle_ms < until_ms then
  redis.call('PEXPIREAT', session, string.format('%.0f', now_ms + idle_ms))
else
  redis.call('PEXPIREAT', session, ends)
end
return ends
