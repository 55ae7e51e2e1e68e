-- Books credits once per grant id, or takes them back when they are negative, but not below zero.
--
-- KEYS account grants
-- ARGV grant_id micros
-- Reply {1 | 0, credits}: whether this call booked it, and what the account has
--
-- A grant is written down as what was booked in truth, so that the grants add up.

local account, grants = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local credits = redis.call('HGET', account, 'credits') or '0'
if redis.call('HEXISTS', grants, ARGV[1]) == 1 then return { 0, credits } end

-- Zero is added because a negative zero is no integer to Redis.
local micros = string.format('%.0f', math.max(tonumber(ARGV[2]), -tonumber(credits)) + 0)
redis.call('HSET', grants, ARGV[1], micros .. ' ' .. string.format('%.0f', now_ms))
redis.call('HINCRBY', account, 'credits', micros)
return { 1, redis.call('HGET', account, 'credits') }
