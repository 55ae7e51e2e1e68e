-- Ends a call: its slot takes its last state, its reservation becomes the real amount.
--
-- KEYS slot account spent reservations leases
-- ARGV token end result ttl_ms charges platform spend
-- Reply 1 | 0: whether the slot ended as told
--
-- `end` is stored, released or burned; empty: there is no slot. `charges` = '0': nothing was set aside. What the token
-- does not hold is left alone, so doing it twice is doing it once: a stored or burned slot keeps the token that ended
-- it, and a settled reservation is gone. The purse gives no more than was reserved; what a call cost above that is
-- overage. A reservation past its lease stays charged as it is, and is left to those who count such.

local slot, account, spent, reservations, leases = unpack(KEYS)
local token, slot_end = ARGV[1], ARGV[2]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- Whole and without an exponent. Zero is added because a negative zero is no integer to Redis.
local function add(hash, field, number) redis.call('HINCRBY', hash, field, string.format('%.0f', number + 0)) end

local record = ARGV[5] == '1' and redis.call('HGET', reservations, token)
if record and tonumber(redis.call('ZSCORE', leases, token)) > now_ms then
  local purse, platform, spend, month, key_id = string.match(record, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
  redis.call('HDEL', reservations, token)
  redis.call('ZREM', leases, token)
  add(account, 'reserved', -tonumber(platform))
  local unused = tonumber(platform) - tonumber(ARGV[6])
  if unused < 0 then add(account, 'overage', -unused) end
  if unused > 0 and purse == 'trial' then add(account, 'trial_spent', -unused) end
  if unused > 0 and purse == 'credits' then add(account, 'credits', unused) end
  -- What was reserved in a month that is over is not in the sums of this one.
  if redis.call('HGET', spent, 'month') == month then
    local more = tonumber(ARGV[7]) - tonumber(spend)
    add(spent, 'total', more)
    add(spent, 'key:' .. key_id, more)
  end
end

if slot_end == '' then return 0 end
local held = redis.call('HMGET', slot, 'state', 'token', 'lease_until_ms')
local state = held[1]
if not state then return slot_end == 'released' and 1 or 0 end
if held[2] ~= token then return 0 end
if state ~= 'running' then return state == slot_end and 1 or 0 end
if tonumber(held[3]) <= now_ms then
  redis.call('HSET', slot, 'state', 'burned', 'token', '')
  return 0
end
if slot_end == 'released' then
  redis.call('DEL', slot)
else
  redis.call('HSET', slot, 'state', slot_end)
  redis.call('HDEL', slot, 'lease_until_ms')
  if slot_end == 'stored' then redis.call('HSET', slot, 'result', ARGV[3]) end
  redis.call('PEXPIRE', slot, ARGV[4])
end
return 1
