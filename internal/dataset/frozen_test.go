package dataset

// frozen is field/dtype=CRC-32 of the values of small().
const frozen = `
mask50/bool=e3ba4551 mask50/i8=74aa6b8d mask50/i16=0c2cfc6f mask50/i32=a324bb00 mask50/i64=750ba679
mask50/u8=74aa6b8d mask50/u16=0c2cfc6f mask50/u32=a324bb00 mask50/u64=750ba679 mask50/f16=9c388a3e
mask50/bf16=b895b7cc mask50/f32=55e04d72 mask50/f64=172d0bca mask50/c64=06e0d52f mask50/c128=8b639d0a
lm/bool=aa78e727 lm/i8=d6f5f034 lm/i16=d1402d8c lm/i32=df2547a7 lm/i64=11bd52d8
lm/u8=c1190fc9 lm/u16=d1402d8c lm/u32=df2547a7 lm/u64=11bd52d8 lm/f16=cbad3dc1
lm/bf16=9a3ab133 lm/f32=c769a8a1 lm/f64=7e5e94af lm/c64=3f91768a lm/c128=ccf68806
em/bool=aa78e727 em/i8=ed25c2a0 em/i16=561a5ae2 em/i32=47dd550d em/i64=30471876
em/u8=a4d616ab em/u16=561a5ae2 em/u32=47dd550d em/u64=30471876 em/f16=9a447ef3
em/bf16=35642ee0 em/f32=edd98624 em/f64=96a79eee em/c64=a1b257ea em/c128=642f5984
weather/bool=aa78e727 weather/i8=d7a3ef6e weather/i16=ffd7b4e7 weather/i32=e7b88ea4 weather/i64=11b4f60d
weather/u8=d7a3ef6e weather/u16=ffd7b4e7 weather/u32=e7b88ea4 weather/u64=11b4f60d weather/f16=be4cfe84
weather/bf16=4447aa6a weather/f32=c86aed32 weather/f64=a66a2c65 weather/c64=f5f640e3 weather/c128=869d38d8
labels/bool=aa78e727 labels/i8=013cc54a labels/i16=5d796afc labels/i32=4e5f5adf labels/i64=f759c65f
labels/u8=013cc54a labels/u16=5d796afc labels/u32=4e5f5adf labels/u64=f759c65f labels/f16=a269a1e0
labels/bf16=e1fcfbaf labels/f32=2a711b8f labels/f64=07436b26 labels/c64=27523c65 labels/c128=93e4c2ff
constant/bool=aa78e727 constant/i8=9d9f4b49 constant/i16=9c8555cf constant/i32=4155a916 constant/i64=538e3bc1
constant/u8=9d9f4b49 constant/u16=9c8555cf constant/u32=4155a916 constant/u64=538e3bc1 constant/f16=fb001a60
constant/bf16=625878ba constant/f32=cd3088bc constant/f64=99ee7e64 constant/c64=e47cc5ec constant/c128=c14cd513
`
