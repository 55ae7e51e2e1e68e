-- What the scripts of permits share. Under the key `permits`, for each name:
--
--   :held:<name>            sorted set of the tokens that hold a permit, by the moment at which their lease ends
--   :waiting:<name>         sorted set of the tokens that wait for one, by their round
--   :rounds:<name>          hash of the last round of each workspace that waits, and the one that is served (`now`)
--   :seen:<name>            hash of the nodes that wait: until when each is taken to be alive
--   :granted:<name>:<node>  list of the tokens that got a permit and whose node was not told yet
--
-- A token is the id of its node, a dot, and a number. Moments are whole milliseconds by this server's clock. Every key
-- expires with the last lease, or soon after the last node has asked for it.

local permits = KEYS[1]

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Lua would write large numbers with an exponent, and lose digits.
local function integer(number)
  return string.format('%.0f', number)
end

local function keep(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, integer(ms)) end
end

local function held_count(name, now)
  local held = permits .. ':held:' .. name
  redis.call('ZREMRANGEBYSCORE', held, '-inf', integer(now))
  return redis.call('ZCARD', held)
end

local function hold(name, token, now, lease_ms)
  local held = permits .. ':held:' .. name
  redis.call('ZADD', held, integer(now + lease_ms), token)
  keep(held, lease_ms)
end

-- Hands free permits to those that wait, by their rounds; passes over those whose node does not ask any more.
local function serve(name, most, now, lease_ms)
  local waiting, rounds = permits .. ':waiting:' .. name, permits .. ':rounds:' .. name
  if redis.call('EXISTS', waiting) == 0 then return end
  local free = most - held_count(name, now)
  while free > 0 do
    local first = redis.call('ZPOPMIN', waiting)
    if first[1] == nil then break end
    local node = string.match(first[1], '^[^.]+')
    if tonumber(redis.call('HGET', permits .. ':seen:' .. name, node) or 0) > now then
      local granted = permits .. ':granted:' .. name .. ':' .. node
      hold(name, first[1], now, lease_ms)
      redis.call('RPUSH', granted, first[1])
      keep(granted, lease_ms)
      redis.call('HSET', rounds, 'now', first[2])
      free = free - 1
    end
  end
  if redis.call('EXISTS', waiting) == 0 then redis.call('DEL', rounds) end
end

-- Tells a node which calls wait for permits of a name: 'others' if calls of another node wait or did within the last
-- moments; 'calm' if no call waits and at least a quarter of the permits is free; else 'none'.
local function contention(name, most, node, now)
  if redis.call('EXISTS', permits .. ':waiting:' .. name) == 0 and held_count(name, now) * 4 <= most * 3 then
    return 'calm'
  end
  local seen = redis.call('HGETALL', permits .. ':seen:' .. name)
  for at = 1, #seen, 2 do
    if seen[at] ~= node and tonumber(seen[at + 1]) > now then return 'others' end
  end
  return 'none'
end

-- The tokens of a node that got a permit since it was told last.
local function granted_to(node, name)
  local granted = permits .. ':granted:' .. name .. ':' .. node
  local tokens = redis.call('LRANGE', granted, 0, -1)
  if #tokens > 0 then redis.call('DEL', granted) end
  return tokens
end
